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


def test_a_truncated_packed_file_is_refused(small):
    path = small.packed("train_images")
    path.write_bytes(path.read_bytes()[:-5])
    assert "train-i.gz: altered or incomplete" in refusal(small)


def test_the_same_content_packed_anew_is_not_the_original_file(small):
    path = small.packed("train_images")
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1, mtime=7))
    assert "train-i.gz: altered" in refusal(small)


def test_a_truncated_unpacked_file_is_refused(small):
    path = small.unpack("train_images")
    path.write_bytes(path.read_bytes()[:-5])
    assert "train-i: incomplete or altered (83 bytes, should be 88)" in refusal(small)


def test_an_altered_unpacked_file_is_refused(small):
    path = small.unpack("test_labels")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert "t10k-l: altered (sha256 is" in refusal(small)


def test_a_folder_in_place_of_a_file_is_refused(small):
    small.packed("train_images").unlink()
    small.packed("train_images").mkdir()
    assert "train-i.gz: not readable (not a regular file)" in refusal(small)


def test_an_empty_folder_lists_all_four(small, tmp_path):
    (tmp_path / "empty").mkdir()
    assert refusal(small, tmp_path / "empty").count("missing") == 4


@pytest.mark.parametrize(("name", "reason"), [("nowhere", "No such file"), ("file", "Not a directory")])
def test_what_is_no_folder_is_said_to_be_none(small, tmp_path, name, reason):
    (tmp_path / "file").touch()
    assert f"{name} is not a readable folder ({reason}" in refusal(small, tmp_path / name)
