"""Bundles: the same bytes for the same records, and what is found in one that was changed by hand."""

import re
import subprocess
import zipfile
from hashlib import sha256

import pytest

from accelbench.bundle import SUMS
from accelbench.cli import main
from accelbench.schema.cell import Status
from report.conftest import Maker


@pytest.fixture
def folder(tmp_path):
    maker = Maker()
    records = [maker.at(maker.ok(maker.cell(batch_size=2**i), 1000.0 * 2**i), i) for i in range(4)]
    return maker.suite(tmp_path / "runs", [*records, maker.at(maker.record(maker.cell(batch_size=64), Status.oom), 9)])


@pytest.fixture
def bundle(folder, tmp_path):
    assert main(["bundle", str(folder), "--out", str(tmp_path / "mine.zip")]) == 0
    return tmp_path / "mine.zip"


def verified(bundle, capsys):
    capsys.readouterr()
    return main(["verify", str(bundle)]), capsys.readouterr()


def changed(bundle, edit, *, fix=False):
    """The bundle with `edit` of its files, name -> content; `fix`: with the sums of what is there then."""
    with zipfile.ZipFile(bundle) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    edit(files)
    if fix:
        del files[SUMS]
        files[SUMS] = "".join(f"{sha256(content).hexdigest()}  {name}\n" for name, content in files.items()).encode()
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
    assert "cells.csv: 5 rows that follow from the records" in printed.out
    assert "WRONG" not in printed.out
    zipfile.ZipFile(bundle).extractall(tmp_path / "files")
    assert subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=tmp_path / "files").returncode == 0
    assert main(["bundle", str(folder), "--out", str(again)]) == 2  # nothing is overwritten


def ok_record(files):
    return next(
        name for name in files if re.fullmatch(r"results/.*/[0-9a-f-]{21}\.json", name) and b'"blocks"' in files[name]
    )


def one_sample(files):
    """Changes one sample of one record."""
    name = ok_record(files)
    files[name] = files[name].replace(b'"seconds": 0.', b'"seconds": 0.1', 1)


def table(old, new):
    return lambda files: files.update({"cells.csv": files["cells.csv"].replace(old, new, 1)})


def named(name):
    return lambda files: files.update({name: b""})


def without_results(files):
    for name in [name for name in files if name.startswith("results/")]:
        del files[name]


@pytest.mark.parametrize(
    ("edit", "fix", "status", "told"),
    [
        (one_sample, False, 1, "not the file that"),
        (one_sample, True, 1, "samples_per_s"),
        (lambda files: files.update({ok_record(files): b"{}"}), True, 1, "WRONG   results/nets/"),
        (table(b"1000.", b"1900."), True, 1, "cells.csv: mlp"),  # which does not follow from its record
        (table(b"\n", b",surplus\n"), True, 0, ""),  # an empty column of another release
        (table(b"model,", b"x" * 140_000 + b","), True, 2, "field larger"),
        (without_results, False, 2, "no sweep there"),
        (named("results/" + "x" * 300), False, 2, "File name too long"),
        (named("../surplus"), False, 1, "WRONG   surplus: not the file"),  # it stays in the folder of the files
    ],
)
def test_what_was_changed_by_hand_is_found(bundle, capsys, edit, fix, status, told):
    found, printed = verified(changed(bundle, edit, fix=fix), capsys)
    assert (found, told in printed.out + printed.err) == (status, True), printed
    assert not (fix and "not the file that" in printed.out)
    assert ("other.zip: " in printed.err, "accelbench-bundle-" in printed.err) == (status == 2, False)


@pytest.mark.parametrize("has_plan", [True, False])
def test_what_can_not_be_packed_is_named_and_nothing_is_written(folder, tmp_path, capsys, has_plan):
    (broken := sorted(folder.glob("*-*.json"))[0]).write_text("{}")
    if not has_plan:
        (folder / "plan.json").unlink()
    out = tmp_path / "no.zip"
    assert main(["bundle", str(folder), "--out", str(out)]) == 2
    assert re.search(f"{broken.name}.*delete it and run the sweep again", capsys.readouterr().err)
    broken.unlink()
    (folder / "race.json").symlink_to(tmp_path / "missing")  # a link to nothing
    assert main(["bundle", str(folder), "--out", str(out)]) == 2
    assert "race.json" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("content", [b"PK", None])
def test_another_file_is_no_bundle(tmp_path, capsys, content):
    path = tmp_path / "some.zip"
    path.write_bytes(content) if content else path.mkdir()
    status, printed = verified(path, capsys)
    assert (status, "Traceback" in printed.err, "some.zip: " in printed.err) == (2, False, True)
