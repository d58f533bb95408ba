"""Bundles: the same bytes for the same records, and what is found in one that was changed by hand."""

import hashlib
import json
import re
import stat
import zipfile

import pytest

from accelbench.bundle.archive import CRATE, digests
from accelbench.cli import main
from accelbench.schema.vocab import Status
from report.conftest import Maker


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
    with zipfile.ZipFile(bundle) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    edit(files)
    if fix:
        crate = json.loads(files[CRATE])
        for each in crate["@graph"]:
            if each["@type"] == "File":
                each["sha256"] = hashlib.sha256(files[each["@id"]]).hexdigest()
        files[CRATE] = json.dumps(crate).encode()
    other = bundle.with_name("other.zip")
    with zipfile.ZipFile(other, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
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
    with zipfile.ZipFile(bundle) as archive:
        assert set(digests(json.loads(archive.read(CRATE)))) == set(archive.namelist()) - {CRATE}
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


def test_a_published_figure_that_does_not_follow_is_found(bundle, capsys):
    def edit(files):
        files["cells.csv"] = files["cells.csv"].replace(b"1000.", b"1900.")

    status, printed = verified(changed(bundle, edit, fix=True), capsys)
    assert (status, "cells.csv: mlp" in printed.out) == (1, True)


def test_times_that_can_not_be_are_found(tmp_path, capsys):
    maker = Maker()
    folder = maker.suite(tmp_path / "runs", [maker.ok(maker.cell(batch_size=2**i), 1000.0) for i in range(2)])
    assert main(["bundle", str(folder), "--out", str(tmp_path / "mine.zip")]) == 0  # both began in the same second
    status, printed = verified(tmp_path / "mine.zip", capsys)
    assert (status, "ran on the same machine" in printed.out) == (1, True)


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [("../out.json", 0, "points outside"), ("/etc/x", 0, "points outside"), ("a/link", stat.S_IFLNK, "is a link")],
)
def test_a_hostile_archive_is_refused(bundle, capsys, name, mode, said):
    with zipfile.ZipFile(bundle, "a") as archive:
        member = zipfile.ZipInfo(name)
        member.external_attr = (mode | 0o777) << 16
        archive.writestr(member, b"/etc/passwd")
    status, printed = verified(bundle, capsys)
    assert (status, said in printed.err) == (2, True)


@pytest.mark.parametrize("content", [b"", b"PK", None])
def test_another_file_is_no_bundle(tmp_path, capsys, content):
    path = tmp_path / "some.zip"
    if content is not None:
        path.write_bytes(content)
    status, printed = verified(path, capsys)
    assert (status, "Traceback" in printed.err, bool(printed.err)) == (2, False, True)
