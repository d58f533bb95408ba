import contextlib
import io
import os
import stat
import subprocess
import sys
import tarfile
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelbench.data import archive
from accelbench.data.archive import MemberCheck, Zip, read_tar
from accelbench.errors import DataError


def zipped(path, *members):
    """A zip of (name or ZipInfo, content)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for member, content in members:
            made.writestr(member, content)
    return path


def tarred(path, *members):
    """A tar.gz of (name or TarInfo, content)."""
    with tarfile.open(path, "w:gz") as made:
        for member, content in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return path


def test_reads_every_file_where_it_is(tmp_path):
    path = zipped(tmp_path / "a.zip", ("Cat/", b""), ("Cat/1.jpg", b"one"), ("Dog/2.jpg", b""))
    found = Zip(path)
    assert found.names() == ["Cat/1.jpg", "Dog/2.jpg"]
    assert (found.read("Cat/1.jpg"), found.read("Dog/2.jpg")) == (b"one", b"")
    assert sorted(os.listdir(tmp_path)) == ["a.zip"]


UNSAFE = ["/etc/passwd", "../up.jpg", "Cat/../../up.jpg", "..\\up.jpg", "C:\\up.jpg", "\\up.jpg", "..", "a/.."]


@pytest.mark.parametrize("name", UNSAFE)
def test_a_name_that_points_outside_is_refused_in_both_kinds(tmp_path, name):
    with pytest.raises(DataError, match="points outside the archive"):
        Zip(zipped(tmp_path / "a.zip", ("Cat/1.jpg", b"1"), (name, b"2"))).names()
    with pytest.raises(DataError, match="points outside the archive"):
        read_tar(tarred(tmp_path / "a.tar.gz", (name, b"2"), ("b", b"1")), {"b": 9})


@given(st.text(alphabet="ab./\\:\0", min_size=1, max_size=12))
def test_no_name_that_is_let_through_leads_out_of_a_folder(name):
    try:
        MemberCheck(archive.Path("a.zip")).add(name, 1)
    except DataError:
        return
    inside = os.path.normpath(os.path.join("/any/folder", name.replace("\\", "/")))
    assert inside == "/any/folder" or inside.startswith("/any/folder/")


def test_links_and_devices_are_refused(tmp_path):
    link = zipfile.ZipInfo("Cat/1.jpg")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(DataError, match="is a link or a device"):
        Zip(zipped(tmp_path / "a.zip", (link, "/etc/passwd"))).names()
    for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)):
        member = tarfile.TarInfo("b")
        member.type, member.linkname = kind, "/etc/passwd"
        with pytest.raises(DataError, match="is a link or a device"):
            read_tar(tarred(tmp_path / f"{number}.tar.gz", (member, b"")), {"b": 9})


def test_bombs_are_refused_before_anything_is_unpacked(tmp_path, monkeypatch):
    path = zipped(tmp_path / "a.zip", ("1.jpg", bytes(1_000_000)), ("2.jpg", bytes(1_000_000)))
    assert path.stat().st_size < 5_000
    monkeypatch.setattr(archive, "MAX_MEMBER_BYTES", 999_999)
    with pytest.raises(DataError, match=r"'1.jpg' would unpack to 1,000,000 bytes"):
        Zip(path).names()
    monkeypatch.setattr(archive, "MAX_MEMBER_BYTES", 10**9)
    monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 1_999_999)
    with pytest.raises(DataError, match="more than"):
        Zip(path).names()
    monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 10**9)
    monkeypatch.setattr(archive, "MAX_MEMBERS", 1)
    with pytest.raises(DataError, match="more than 1 files"):
        Zip(path).names()


def test_a_member_that_lies_about_its_size_is_damaged(tmp_path):
    path = zipped(tmp_path / "a.zip", ("1.jpg", b"x" * 5_000))
    content = path.read_bytes()
    path.write_bytes(content.replace((5_000).to_bytes(4, "little"), (50).to_bytes(4, "little")))
    with pytest.raises(DataError, match="damaged"):
        Zip(path).read("1.jpg")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_is_refused(tmp_path):
    with pytest.raises(DataError, match="'1.jpg' is there twice"):
        Zip(zipped(tmp_path / "a.zip", ("1.jpg", b"1"), ("1.jpg", b"2"))).names()


def test_an_encrypted_archive_says_so(tmp_path):
    path = zipped(tmp_path / "a.zip", ("1.jpg", b"1"))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="is encrypted"):
        Zip(path).names()


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_what_is_no_archive_says_so(tmp_path, content):
    path = tmp_path / "a"
    path.write_bytes(zipped(tmp_path / "b", ("1", b"1" * 99)).read_bytes()[:60] if content is None else content)
    with pytest.raises(DataError, match="no readable zip archive"):
        Zip(path).names()
    with pytest.raises(DataError, match="no readable tar archive"):
        read_tar(path, {"1": 9})


def flipped(content, start, end):
    return content[:start] + bytes(byte ^ 0xFF for byte in content[start:end]) + content[end:]


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_anywhere_in_a_packed_member_is_told(tmp_path, kind):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", kind) as made:
        made.writestr("1.jpg", os.urandom(500) + bytes(500))
    content = (tmp_path / "a.zip").read_bytes()
    for place in range(40, 540, 20):
        path = tmp_path / f"{place}.zip"
        path.write_bytes(flipped(content, place, place + 40))
        with pytest.raises(DataError, match="damaged"):
            Zip(path).read("1.jpg")


def test_damage_anywhere_in_a_tar_is_told_or_changes_nothing(tmp_path):
    wanted = os.urandom(500)
    path = tarred(tmp_path / "a.tar.gz", ("1", wanted))
    content = path.read_bytes()
    for place in range(0, len(content) - 20, 20):
        path.write_bytes(flipped(content, place, place + 20))
        with contextlib.suppress(DataError):
            assert read_tar(path, {"1": 500}) == ({"1": wanted}, [])


def test_a_tars_limits_hold_for_all_of_it(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="is there twice"):
        read_tar(tarred(tmp_path / "a.tar.gz", ("1", b"1"), ("1", b"2")), {"1": 9})
    monkeypatch.setattr(archive, "MAX_MEMBERS", 2)
    with pytest.raises(DataError, match="more than 2 files"):
        read_tar(tarred(tmp_path / "b.tar.gz", ("1", b"1"), ("2", b"2"), ("3", b"3")), {"1": 9})
    monkeypatch.setattr(archive, "MAX_TOTAL_BYTES", 1000)  # of what is only passed by, too
    with pytest.raises(DataError, match="or 1,000 bytes"):
        read_tar(tarred(tmp_path / "c.tar.gz", ("surplus", bytes(1000)), ("1", b"1")), {"1": 9})


def test_a_tars_wanted_files_are_read_and_no_others(tmp_path):
    path = tarred(tmp_path / "a.tar.gz", ("top/readme.html", b"surplus"), ("top/1", b"one"), ("top/2", b"two"))
    assert read_tar(path, {"top/1": 3, "top/2": 3}) == ({"top/1": b"one", "top/2": b"two"}, ["top/readme.html"])


def test_a_tar_that_lacks_a_file_or_has_it_too_large_says_so(tmp_path):
    path = tarred(tmp_path / "a.tar.gz", ("top/1", b"one"))
    with pytest.raises(DataError, match="missing in it: top/2"):
        read_tar(path, {"top/1": 3, "top/2": 3})
    with pytest.raises(DataError, match=r"'top/1' has 3 bytes \(at most 2\)"):
        read_tar(path, {"top/1": 2})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.integers(0, 300))
def test_a_tar_that_is_cut_off_anywhere_is_refused(tmp_path, cut):
    path = tarred(tmp_path / "a.tar.gz", ("1", os.urandom(300)))
    content = path.read_bytes()
    path.write_bytes(content[:cut])
    with pytest.raises(DataError):
        read_tar(path, {"1": 300})


@pytest.mark.parametrize(
    ("headers", "told"),
    [({"GNU.sparse.size": "x"}, "no readable tar archive"), ({"size": "9" * 30}, "more than 200,000 files or")],
)
def test_a_tar_with_impossible_numbers_is_refused(tmp_path, headers, told):
    member = tarfile.TarInfo("1")
    member.pax_headers = headers
    with pytest.raises(DataError, match=told):
        read_tar(tarred(tmp_path / "a.tar.gz", (member, b"one")), {"2": 9})


def test_a_zip_member_without_a_name_is_refused(tmp_path):
    with pytest.raises(DataError, match="'' points outside the archive"):
        Zip(zipped(tmp_path / "a.zip", (zipfile.ZipInfo(""), b"1"))).names()


def test_a_member_that_asks_for_gigabytes_to_unpack_is_damaged(tmp_path):
    """The header of an LZMA member says how large its window is: here 4 GiB."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as made:
        made.writestr("1.jpg", b"x" * 5_000)
    content = bytearray((tmp_path / "a.zip").read_bytes())
    window = content.index(b"1.jpg") + len("1.jpg") + 5
    content[window : window + 4] = b"\xff" * 4
    (tmp_path / "a.zip").write_bytes(content)
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
    code += "from pathlib import Path; from accelbench.data.archive import Zip; Zip(Path(sys.argv[1])).read('1.jpg')"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.zip"], capture_output=True, text=True)
    assert "DataError: damaged in the archive" in done.stderr
