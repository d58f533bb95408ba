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
    cells = [maker.cell(batch_size=2**i) for i in range(4)]
    records = [maker.at(maker.ok(cell, 1000.0 * 2**i), i) for i, cell in enumerate(cells)]
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


@pytest.mark.parametrize("has_plan", [True, False])
def test_a_record_that_can_not_be_read_is_refused_and_found(folder, bundle, tmp_path, capsys, has_plan):
    path = sorted(folder.glob("*-*.json"))[0]

    def edit(files):
        files[next(name for name in files if path.name in name)] = b"{}"

    status, printed = verified(changed(bundle, edit, fix=True), capsys)
    assert (status, f"WRONG   results/nets/{path.name}" in printed.out) == (1, True)
    path.write_text("{}")
    if not has_plan:
        (folder / "plan.json").unlink()
    assert main(["bundle", str(folder), "--out", str(tmp_path / "no.zip")]) == 2
    printed = capsys.readouterr().err
    assert path.name in printed
    assert "delete it and run the sweep again" in printed


@pytest.mark.parametrize(
    ("old", "new", "status", "problem"),
    [
        (b"1000.", b"1900.", 1, "cells.csv: mlp"),  # which does not follow from its record
        (b"\n", b",surplus\n", 0, ""),  # an empty column of another release
        (b"model,", b"x" * 140_000 + b",", 2, "field larger"),
    ],
)
def test_a_table_with_another_figure_or_of_another_shape_is_found(bundle, capsys, old, new, status, problem):
    def edit(files):
        files["cells.csv"] = files["cells.csv"].replace(old, new, 1)

    exit_status, printed = verified(changed(bundle, edit, fix=True), capsys)
    assert (exit_status, problem in printed.out + printed.err) == (status, True), printed
    assert ("other.zip" in printed.err) == (exit_status == 2)


def without_results(files):
    for name in [name for name in files if name.startswith("results/")]:
        del files[name]


def named(name):
    return lambda files: files.update({name: b""})


@pytest.mark.parametrize(
    ("edit", "problem"),
    [(without_results, "no sweep there"), (named("results/" + "x" * 300), "File name too long")],
)
def test_files_that_can_not_be_unpacked_are_refused(bundle, capsys, edit, problem):
    status, printed = verified(changed(bundle, edit), capsys)
    assert (status, "other.zip: " in printed.err, "accelbench-bundle-" in printed.err) == (2, True, False), printed.err
    assert problem in printed.err


@pytest.mark.parametrize("name", ["../surplus", "/surplus"])
def test_a_file_whose_name_leads_out_of_the_bundle_stays_in_it_and_is_found(bundle, capsys, name):
    status, printed = verified(changed(bundle, named(name)), capsys)
    assert (status, "WRONG   surplus: not the file" in printed.out) == (1, True)


def test_what_can_not_be_packed_is_named_and_nothing_is_written(folder, tmp_path, capsys):
    out = tmp_path / "no.zip"
    (folder / "race.json").symlink_to(tmp_path / "missing")  # a link to nothing
    assert main(["bundle", str(folder), "--out", str(out)]) == 2
    printed = capsys.readouterr().err
    assert ("race.json" in printed, "no.zip" in printed, out.exists()) == (True, False, False)


@pytest.mark.parametrize("content", [b"PK", None])
def test_another_file_is_no_bundle(tmp_path, capsys, content):
    path = tmp_path / "some.zip"
    if content is not None:
        path.write_bytes(content)
    status, printed = verified(path, capsys)
    assert (status, "Traceback" in printed.err, bool(printed.err)) == (2, False, True)
    assert content is not None or "No such file" in printed.err
    assert "Is a directory" in verified(tmp_path, capsys)[1].err
