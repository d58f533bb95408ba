import zipfile

import pytest

from accelbench.data.pictures import Zip
from accelbench.errors import DataError


def zipped(path, *members):
    """A zip of (name, content)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for member, content in members:
            made.writestr(member, content)
    return path


def test_an_encrypted_member_is_refused(tmp_path):
    content = bytearray(zipped(tmp_path / "c.zip", ("1.jpg", b"1")).read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "c.zip").write_bytes(content)
    with pytest.raises(DataError, match=r"damaged in the archive \(.* is encrypted"):
        Zip(tmp_path / "c.zip").read("1.jpg")


def test_a_member_that_unpacks_to_too_much_is_refused(tmp_path):
    path = zipped(tmp_path / "a.zip", ("1.jpg", bytes(1_000_000)))
    assert path.stat().st_size < 5_000
    with pytest.raises(DataError, match=r"too large \(1,000,000 bytes\)"):
        Zip(path, 999_999).read("1.jpg")


def test_a_member_that_lies_about_its_size_is_damaged(tmp_path):
    path = zipped(tmp_path / "a.zip", ("1.jpg", b"x" * 5_000))
    content = path.read_bytes()
    path.write_bytes(content.replace((5_000).to_bytes(4, "little"), (50).to_bytes(4, "little")))
    with pytest.raises(DataError, match="damaged"):
        Zip(path).read("1.jpg")
