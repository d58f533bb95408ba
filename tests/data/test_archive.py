import os
import stat
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.data import pictures as archive
from accelbench.data.pictures import Zip
from accelbench.errors import DataError


def zipped(path, *members):
    """A zip of (name or ZipInfo, content)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for member, content in members:
            made.writestr(member, content)
    return path


UNSAFE = ["/etc/passwd", "../up.jpg", "Cat/../../up.jpg", "..\\up.jpg", "C:\\up.jpg", "\\up.jpg", "..", "a/..", ""]


@pytest.mark.parametrize("name", UNSAFE)
def test_a_name_that_points_outside_is_refused(tmp_path, name):
    with pytest.raises(DataError, match="points outside the archive"):
        Zip(zipped(tmp_path / "a.zip", ("Cat/1.jpg", b"1"), (zipfile.ZipInfo(name), b"2"))).names()


@given(st.text(alphabet="ab./\\:\0", min_size=1, max_size=12))
def test_no_name_that_is_let_through_leads_out_of_a_folder(name):
    if archive._problem(SimpleNamespace(filename=name, external_attr=0, flag_bits=0, file_size=1), 9) is not None:
        return
    inside = os.path.normpath(os.path.join("/any/folder", name.replace("\\", "/")))
    assert inside == "/any/folder" or inside.startswith("/any/folder/")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_links_repeated_names_and_encrypted_members_are_refused(tmp_path):
    link = zipfile.ZipInfo("Cat/1.jpg")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(DataError, match="is a link or a device"):
        Zip(zipped(tmp_path / "a.zip", (link, "/etc/passwd"))).names()
    with pytest.raises(DataError, match="'1.jpg' is there twice"):
        Zip(zipped(tmp_path / "b.zip", ("1.jpg", b"1"), ("1.jpg", b"2"))).names()
    content = bytearray(zipped(tmp_path / "c.zip", ("1.jpg", b"1")).read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "c.zip").write_bytes(content)
    with pytest.raises(DataError, match=r"damaged in the archive \(.* is encrypted"):
        Zip(tmp_path / "c.zip").read("1.jpg")


def test_bombs_are_refused_before_anything_is_unpacked(tmp_path, monkeypatch):
    path = zipped(tmp_path / "a.zip", ("1.jpg", bytes(1_000_000)), ("2.jpg", bytes(1_000_000)))
    assert path.stat().st_size < 5_000
    for limits, told in (
        ({"max_member_bytes": 999_999}, "'1.jpg' would unpack to 1,000,000 bytes"),
        ({"max_total_bytes": 1_999_999}, "more than"),
    ):
        with pytest.raises(DataError, match=told):
            Zip(path, **limits).names()
    monkeypatch.setattr(archive, "MAX_MEMBERS", 1)
    with pytest.raises(DataError, match="more than 1 files"):
        Zip(path).names()


def test_a_member_that_lies_about_its_size_is_damaged(tmp_path):
    path = zipped(tmp_path / "a.zip", ("1.jpg", b"x" * 5_000))
    content = path.read_bytes()
    path.write_bytes(content.replace((5_000).to_bytes(4, "little"), (50).to_bytes(4, "little")))
    with pytest.raises(DataError, match="damaged"):
        Zip(path).read("1.jpg")


def test_a_member_that_asks_for_gigabytes_to_unpack_is_damaged(tmp_path):
    """The header of an LZMA member says how large its window is: here 4 GiB."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as made:
        made.writestr("1.jpg", b"x" * 5_000)
    content = bytearray((tmp_path / "a.zip").read_bytes())
    window = content.index(b"1.jpg") + len("1.jpg") + 5
    content[window : window + 4] = b"\xff" * 4
    (tmp_path / "a.zip").write_bytes(content)
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
    code += "from pathlib import Path; from accelbench.data.pictures import Zip; Zip(Path(sys.argv[1])).read('1.jpg')"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.zip"], capture_output=True, text=True)
    assert "DataError: damaged in the archive" in done.stderr
