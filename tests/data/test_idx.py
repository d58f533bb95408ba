"""Sets in the idx format, and where any set of files is looked for (`obtain.FileSet`)."""

import gzip

import numpy as np
import pytest

from accelbench.data.arrays import load_split
from accelbench.data.sets import fashion_mnist, mnist
from accelbench.errors import DataError

NAMES = ("train-i", "train-l", "t10k-i", "t10k-l")


@pytest.fixture
def obtain(small, project, target):
    return lambda source: small.data_set().obtain("small", source, project, target)


def is_small(target, small):
    train, test = (load_split(target.folder, split) for split in ("train", "test"))
    found = (train.images, train.labels, test.images, test.labels)
    return all(np.array_equal(array, small.arrays[name]) for array, name in zip(found, NAMES, strict=True))


@pytest.mark.parametrize(("source", "shown"), [("../small", "../small"), ("~/small", "small")])
def test_reads_packed_and_unpacked_files(small, obtain, target, monkeypatch, source, shown):
    monkeypatch.setenv("HOME", str(small.folder.parent))
    small.unpack(NAMES[0])
    obtained = obtain(source)
    assert is_small(target, small)
    assert (obtained.source, obtained.stand_in_reason) == (f"Small, from {shown}", None)


@pytest.mark.parametrize("source", ["auto", "../small"])
def test_each_missing_or_altered_file_that_is_wanted_is_named_with_what_is_wrong(small, project, obtain, source):
    small.packed("train-l").unlink()
    content = bytearray(small.unpack("t10k-i").read_bytes())
    content[-1] ^= 1
    (small.folder / "t10k-i").write_bytes(content)
    (project / "data/Small").mkdir(parents=True)
    (project / "data/Small/raw").symlink_to(small.folder)
    with pytest.raises(DataError, match="does not hold the original files of Small") as caught:
        obtain(source)
    assert "\n  train-l.gz: missing (and no unpacked train-l)" in str(caught.value)
    assert "\n  t10k-i: altered or incomplete (40 bytes, should be 40; sha256 is" in str(caught.value)
    assert "train-i" not in str(caught.value)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda content: content[:-5], "not readable"),
        (lambda content: b"?" * 40, "not readable"),
        (lambda content: gzip.compress(gzip.decompress(content)[:-1]), r"altered or incomplete \(87 bytes"),
        (lambda content: gzip.compress(gzip.decompress(content) + bytes(10**6)), r"altered or incomplete \(89 bytes"),
    ],
)
def test_a_packed_file_that_is_not_the_original_is_refused(small, obtain, spoil, told):
    path = small.packed("train-i")
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(DataError, match=f"train-i.gz: {told}"):
        obtain("../small")


@pytest.mark.parametrize(
    ("data_set", "folder", "counts"),
    [
        (mnist.DATA_SET, "mnist", [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
        (fashion_mnist.DATA_SET, "fashion_mnist", [1_000] * 10),
    ],
)
def test_the_real_files(shared, project, target, data_set, folder, counts):
    obtained = data_set.obtain(folder, str(shared(folder) / "raw"), project, target)
    assert obtained.stand_in_reason is None
    assert load_split(target.folder, "train").images.shape == (60_000, 28, 28)
    assert np.bincount(load_split(target.folder, "test").labels).tolist() == counts
