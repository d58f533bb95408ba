import gzip

import numpy as np
import pytest

from accelbench.data import idx
from accelbench.errors import DataError

KEYS = ("train_images", "train_labels", "test_images", "test_labels")


def check(splits, arrays):
    for split in ("train", "test"):
        assert np.array_equal(splits[split].images, arrays[f"{split}_images"])
        assert np.array_equal(splits[split].labels, arrays[f"{split}_labels"])
        assert splits[split].images.dtype == splits[split].labels.dtype == np.uint8


@pytest.mark.parametrize("unpacked", [(), KEYS[:1], KEYS])
def test_reads_packed_and_unpacked_files(small, unpacked):
    for key in unpacked:
        small.unpack(key)
    check(idx.read(small.idx_set, small.folder), small.arrays)


@pytest.mark.parametrize("below", ["raw", "Small/raw"])
def test_finds_the_files_below_the_folder(small, tmp_path, below):
    target = tmp_path / "above" / below
    target.parent.mkdir(parents=True)
    small.folder.rename(target)
    check(idx.read(small.idx_set, tmp_path / "above"), small.arrays)


def refusal(small, folder=None):
    with pytest.raises(DataError) as caught:
        idx.read(small.idx_set, folder or small.folder)
    return str(caught.value)


def test_each_missing_or_altered_file_is_named_with_what_is_wrong(small):
    small.packed("train_labels").unlink()
    content = bytearray(small.packed("test_images").read_bytes())
    content[-1] ^= 1
    small.packed("test_images").write_bytes(content)
    message = refusal(small)
    assert "train-l.gz: missing" in message
    assert f"t10k-i.gz: altered or incomplete ({len(content)} bytes; md5 is" in message
    assert "train-i" not in message
    assert "t10k-l" not in message


@pytest.mark.parametrize(("name", "reason"), [("nowhere", "No such file"), ("file", "Not a directory")])
def test_what_is_no_folder_is_said_to_be_none(small, tmp_path, name, reason):
    (tmp_path / "file").touch()
    assert f"{name} is not a readable folder ({reason}" in refusal(small, tmp_path / name)


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


def alter(path):
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def pack_anew(path):
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1, mtime=7))


def make_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("is_packed", "spoil", "told"),
    [
        (True, cut, "train-i.gz: altered or incomplete"),
        (True, pack_anew, "train-i.gz: altered"),
        (True, make_folder, "train-i.gz: not readable (not a regular file)"),
        (False, cut, "train-i: incomplete or altered (83 bytes, should be 88)"),
        (False, alter, "train-i: altered (sha256 is"),
    ],
)
def test_what_is_not_the_original_file_is_refused(small, is_packed, spoil, told):
    spoil(small.packed("train_images") if is_packed else small.unpack("train_images"))
    assert told in refusal(small)
