import zipfile

import pytest

from accelbench.data.pictures import Zip
from accelbench.errors import DataError


@pytest.fixture
def path(tmp_path):
    """A zip whose one member is 1,000,000 equal bytes."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("1.jpg", bytes(1_000_000))
    return tmp_path / "a.zip"


def test_what_unpacks_to_too_much_is_refused(path):
    with pytest.raises(DataError, match=r"too large \(1,000,000 bytes\)"):
        Zip(path, 999_999).read("1.jpg")
    with pytest.raises(DataError, match=r"a.zip: unpacks to 1,000,000 bytes, above 100 times its size"):
        Zip(path).names()


def test_a_member_that_lies_about_its_size_is_damaged(path):
    path.write_bytes(path.read_bytes().replace((1_000_000).to_bytes(4, "little"), (50).to_bytes(4, "little")))
    with pytest.raises(DataError, match="damaged in the archive"):
        Zip(path).read("1.jpg")
