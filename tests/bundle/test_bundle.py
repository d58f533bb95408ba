"""Bundles: the same bytes for the same records, and what is found in one that was changed by hand."""

import hashlib
import io
import json
import re
import stat
import zipfile
from dataclasses import replace

import pandas as pd
import pytest

from accelbench.bundle.archive import CRATE, digests
from accelbench.bundle.verify import _overlaps, _wrong_requests, too_long
from accelbench.cli import main
from accelbench.judging.target import mllog
from accelbench.schema.measurement import Block, Epoch, Evaluated, Logged, TargetTraining
from accelbench.schema.record import write
from accelbench.schema.vocab import Mode, Protocol, Span, Status
from accelbench.serving.batcher import due_ns
from accelbench.serving.summary import ROWS, summarised, write_times
from fakes import needs
from report.conftest import ENVIRONMENT, Maker
from serving.test_summary import served


@pytest.fixture
def folder(tmp_path):
    maker = Maker()
    cells = [maker.cell(batch_size=2**i) for i in range(4)]
    records = [maker.at(maker.ok(each, 1000.0 * 2**i), i) for i, each in enumerate(cells)]
    return maker.suite(tmp_path / "runs", [*records, maker.at(maker.record(maker.cell(batch_size=64), Status.oom), 9)])


@pytest.fixture
def bundle(folder, tmp_path):
    assert main(["bundle", str(folder), "--out", str(tmp_path / "mine.zip")]) == 0
    return tmp_path / "mine.zip"


def verified(bundle, capsys):
    capsys.readouterr()
    status = main(["verify", str(bundle)])
    return status, capsys.readouterr()


def changed(bundle, edit, *, fix=False):
    """The bundle with `edit` of its files, name -> content; `fix`: with the digests of what is there then."""
    with zipfile.ZipFile(bundle) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    edit(files)
    if fix:
        crate = json.loads(files[CRATE])
        for each in crate["@graph"]:
            if each["@type"] == "File":
                each["sha256"] = hashlib.sha256(files[each["@id"]]).hexdigest()
        files[CRATE] = json.dumps(crate).encode()
    other = bundle.with_name("other.zip")
    with zipfile.ZipFile(other, "w") as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return other


def test_the_same_records_give_the_same_bytes_which_are_whole(folder, bundle, tmp_path, capsys):
    again = tmp_path / "again.zip"
    assert main(["bundle", str(folder), "--out", str(again)]) == 0
    assert again.read_bytes() == bundle.read_bytes()
    status, printed = verified(bundle, capsys)
    assert status == 0
    assert "cells.csv: " in printed.out
    assert "5 records were read" in printed.out
    assert "WRONG" not in printed.out
    with zipfile.ZipFile(bundle) as opened:
        assert set(digests(json.loads(opened.read(CRATE)))) == set(opened.namelist()) - {CRATE}
    assert main(["bundle", str(folder), "--out", str(again)]) == 2  # nothing is overwritten


def one_digit(files):
    """Changes a digit of one sample of one record."""
    name = next(
        name for name in files if re.fullmatch(r"results/.*/[0-9a-f-]{21}\.json", name) and b'"blocks"' in files[name]
    )
    text = files[name].decode()
    at = text.index('"seconds": ') + len('"seconds": 0.0')
    digit = next(i for i in range(at, at + 9) if text[i].isdigit())
    files[name] = (text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :]).encode()


@pytest.mark.parametrize("fix", [False, True])
def test_one_digit_of_one_sample_is_found(bundle, capsys, fix):
    status, printed = verified(changed(bundle, one_digit, fix=fix), capsys)
    assert status == 1
    assert ("samples_per_s should be" in printed.out) or ("samples_per_s_low should be" in printed.out)
    assert ("not the file that" in printed.out) is not fix


@pytest.mark.parametrize(
    ("sweeps", "nodes", "is_wrong"),
    [
        (("a", "a"), (None, None), True),
        (("a", "b"), (None, None), False),  # two equal machines, whose records were merged
        ((None, None), (None, None), False),
        (("a", "b"), ("n1", "n1"), True),
        (("a", "a"), ("n1", "n2"), False),
    ],
)
def test_processes_of_one_machine_that_ran_at_once_are_found(sweeps, nodes, is_wrong):
    maker = Maker()
    records = [
        replace(
            maker.ok(maker.cell(), 1000.0),
            identity=f"{number}" * 8,
            sweep_id=sweep,
            environment=ENVIRONMENT | ({"node": {"name": node}} if node else {}),
        )
        for number, (sweep, node) in enumerate(zip(sweeps, nodes, strict=True))
    ]
    assert len([*_overlaps(records)]) == is_wrong


def test_what_a_report_says_of_whole_records_is_a_note(folder, tmp_path, capsys):
    (folder / "plan.json").unlink()
    assert main(["bundle", str(folder), "--out", str(tmp_path / "mine.zip")]) == 0
    status, printed = verified(tmp_path / "mine.zip", capsys)
    assert (status, "WRONG" in printed.out) == (0, False), printed.out
    assert any("no plan.json" in line for line in printed.out.splitlines() if line.startswith("note    "))


@pytest.mark.parametrize("has_plan", [True, False])
def test_a_record_that_can_not_be_read_is_refused_and_found(folder, bundle, tmp_path, capsys, has_plan):
    path = sorted(folder.glob("*-*.json"))[0]

    def edit(files):
        files[next(name for name in files if path.name in name)] = b"{}"

    status, printed = verified(changed(bundle, edit, fix=True), capsys)
    assert (status, f"WRONG   {path.name}" in printed.out) == (1, True)
    path.write_text("{}")
    if not has_plan:
        (folder / "plan.json").unlink()
    assert main(["bundle", str(folder), "--out", str(tmp_path / "no.zip")]) == 2
    said = capsys.readouterr().err
    assert path.name in said
    assert "delete it and run the sweep again" in said


def test_a_record_of_no_plan_is_found(folder, bundle, capsys):
    maker = Maker()
    other = maker.at(maker.ok(maker.cell(batch_size=999), 1.0), 50)
    content = write(other, folder).read_bytes()
    changed_one = changed(bundle, lambda files: files.update({f"results/nets/{other.name}.json": content}))
    status, printed = verified(changed_one, capsys)
    assert (status, f"{other.name}.json: of no plan" in printed.out) == (1, True)


def test_raw_times_and_logs_are_those_of_their_records(tmp_path, capsys):
    maker = Maker()
    made = served(due_ns(400, 50, seed=1))
    serving = maker.cell(protocol=Protocol.server, mode=Mode.infer)
    rows, path = [getattr(made, row) for row in ROWS], tmp_path / "times.npy"
    kept = replace(summarised(made, serving), requests_digest=write_times(rows, path))
    raw = path.read_bytes()
    one = replace(maker.ok(serving, 1.0, blocks=[], latency_s=[], serving=kept), wall_s=20.0)
    log = [Logged(span=Span.train, began_s=1.0, ended_s=2.0)]
    at = Evaluated(num_steps=9, num_samples=9, epochs=1.0, value=0.5, began_s=2.0, ended_s=2.2)
    seen = TargetTraining(num_validation=9, deterministic=True, log=log, evaluations=[at])
    two = maker.at(maker.ok(maker.cell(protocol=Protocol.target), 1.0, blocks=[], latency_s=[], target=seen), 5)
    folder = maker.suite(tmp_path / "runs", [one, two])
    (folder / f"{one.name}.requests.npy").write_bytes(raw)
    (folder / f"{two.name}.mllog").write_text(mllog(two))
    (folder / f"{one.name}.mllog").write_text("of an earlier process")
    bundle = tmp_path / "mine.zip"
    assert main(["bundle", str(folder), "--out", str(bundle)]) == 0
    status, printed = verified(bundle, capsys)
    assert (status, "1 files of raw times" in printed.out, "1 logs of" in printed.out) == (0, True, True), printed.out

    def say(ending, content):
        return lambda files: files.update({name: content for name in files if name.endswith(ending)})

    for ending, content in ((".requests.npy", raw[:-1] + b"x"), (".mllog", b"")):
        status, printed = verified(changed(bundle, say(ending, content), fix=True), capsys)
        assert (status, bool(re.search(rf"WRONG.*{ending}", printed.out))) == (1, True)
    for content in (raw[:-1] + b"\x7f", raw[:-8], raw[:130] + b"\x7f" + raw[131:], b"x"):
        path.write_bytes(content)
        named = replace(kept, requests_digest=hashlib.sha256(content).hexdigest())
        (wrong,) = _wrong_requests(replace(one, measurement=replace(one.measurement, serving=named)), path)
        assert "gives another" in wrong or "not readable" in wrong


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epochs": [Epoch(seconds=9.0, num_samples=9)]}, "its epochs took 9 s"),
        ({"blocks": [Block(num_steps=1, num_samples=1, seconds=9.0)]}, "its steps took"),
        ({"steady_boot_s": (5.0, 5.1)}, "its steady state 0.1 s"),
    ],
)
def test_times_that_do_not_fit_into_the_process_are_found(changes, said):
    maker = Maker()
    assert [*too_long(maker.ok(maker.cell(), 1e5))] == []
    assert said in "".join(too_long(maker.ok(maker.cell(), 1e5, **changes)))


@pytest.mark.parametrize(
    ("column", "status", "said"),
    [
        ("kv_cache_mb", 0, "note    processes.csv: lacks columns that have no value here: kv_cache_mb"),
        ("counts", 1, "WRONG"),
    ],
)
def test_a_table_of_a_release_with_fewer_columns_is_compared(bundle, capsys, column, status, said):
    def edit(files):
        table = pd.read_csv(io.BytesIO(files["processes.csv"]), dtype=str, keep_default_na=False)
        files["processes.csv"] = table.drop(columns=column).to_csv(index=False).encode()

    found, printed = verified(changed(bundle, edit, fix=True), capsys)
    assert (found, said in printed.out) == (status, True), printed


@pytest.mark.parametrize(
    ("old", "new", "status", "said"),
    [
        (b"1000.", b"1900.", 1, "cells.csv: mlp"),  # which does not follow from its record
        (b"model,", b"model,invented,", 1, "invented"),
        (b"\n", b",surplus\n", 1, "other columns"),
        (b"model,", b"model\r,", 2, "cells.csv"),
        (b"model,", b"x" * 140_000 + b",", 2, "field larger"),
    ],
)
def test_a_table_with_another_figure_or_of_another_shape_is_found(bundle, capsys, old, new, status, said):
    def edit(files):
        files["cells.csv"] = files["cells.csv"].replace(old, new, 1)

    found, printed = verified(changed(bundle, edit, fix=True), capsys)
    assert (found, said in printed.out + printed.err) == (status, True), printed
    assert found == 1 or "other.zip" in printed.err


def clashing(files):
    files["results/a/b"] = files["results/a"] = b""


def without_results(files):
    for name in [name for name in files if name.startswith("results/")]:
        del files[name]


def without_records(files):
    without_results(files)
    files["results/x"] = b""


def unnormalised(files):
    files["results/./x"] = b""


@pytest.mark.parametrize(
    ("edit", "said"),
    [(clashing, ""), (without_results, "it has no results/"), (without_records, ""), (unnormalised, "no plain name")],
)
def test_files_that_can_not_be_unpacked_are_refused(bundle, capsys, edit, said):
    status, printed = verified(changed(bundle, edit), capsys)
    assert (status, "other.zip: " in printed.err, "accelbench-bundle-" in printed.err) == (2, True, False), printed.err
    assert said in printed.err


def test_what_can_not_be_packed_is_named_and_nothing_is_written(folder, tmp_path, capsys):
    out = tmp_path / "no.zip"
    (folder / "race.json").symlink_to(tmp_path / "missing")  # a link to nothing
    assert main(["bundle", str(folder), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert ("race.json" in said, "no.zip" in said, out.exists()) == (True, False, False)


def test_plans_that_confirm_nothing_of_the_records_are_left_out(folder, tmp_path):
    maker = Maker()
    maker.suite(tmp_path / "confirmed", [maker.ok(maker.cell(suite="other"), 1.0)])
    assert main(["bundle", str(folder.parent), "--out", str(tmp_path / "mine.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "mine.zip") as bundle:
        assert not [name for name in bundle.namelist() if name.startswith("confirmed/")]


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [("../out.json", 0, "points outside"), ("/etc/x", 0, "points outside"), ("a/link", stat.S_IFLNK, "is a link")],
)
def test_a_hostile_archive_is_refused(bundle, capsys, name, mode, said):
    with zipfile.ZipFile(bundle, "a") as opened:
        member = zipfile.ZipInfo(name)
        member.external_attr = (mode | 0o777) << 16
        opened.writestr(member, b"/etc/passwd")
    status, printed = verified(bundle, capsys)
    assert (status, said in printed.err) == (2, True)


@pytest.mark.parametrize("content", [b"", b"PK", None])
def test_another_file_is_no_bundle(tmp_path, capsys, content):
    path = tmp_path / "some.zip"
    if content is not None:
        path.write_bytes(content)
    status, printed = verified(path, capsys)
    assert (status, "Traceback" in printed.err, bool(printed.err)) == (2, False, True)
    assert content is not None or printed.err == f"accelbench: {path}: no such file\n"
    assert verified(tmp_path, capsys)[1].err == f"accelbench: {tmp_path}: not a file\n"


@needs("model_signing")
def test_a_signed_bundle_with_its_report_is_verified_by_the_public_key_alone(folder, tmp_path, capsys, monkeypatch):
    from cryptography.hazmat.primitives.asymmetric import ec  # which comes with model-signing
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    monkeypatch.chdir(tmp_path)
    for name in "ab":
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pub").write_bytes(public)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / f"{name}.pem").write_bytes(private)
    (folder / "report/plots").mkdir(parents=True)
    (folder / "report/plots/one.svg").write_text("<svg/>")
    assert main(["bundle", str(folder), "--out", "mine.zip", "--sign", "a.pem"]) == 0
    assert "report/plots/one.svg" in zipfile.ZipFile("mine.zip").namelist()
    assert main(["verify", "mine.zip", "--key", "a.pub"]) == 0
    assert "it is signed with the private key of a.pub" in capsys.readouterr().out
    assert main(["verify", "mine.zip", "--key", "b.pub"]) == 2
    assert "--key b.pub: not signed with its private key" in capsys.readouterr().err
    changed(tmp_path / "mine.zip", one_digit, fix=True).replace(tmp_path / "mine.zip")
    assert main(["verify", "mine.zip", "--key", "a.pub"]) == 2
