"""Sets in the idx format, and where any set of files is looked for (`obtain.FileSet`)."""

import numpy as np
import pytest

from accelbench.data.arrays import load_split
from accelbench.data.mnist_files import NAMES
from accelbench.data.sets import fashion_mnist, mnist
from accelbench.errors import DataError


@pytest.fixture
def obtain(small, project, target):
    return lambda source: small.data_set().obtain("small", source, project, target)


def is_small(target, small):
    train, test = (load_split(target.folder, split) for split in ("train", "test"))
    arrays = (train.images, train.labels, test.images, test.labels)
    return all(np.array_equal(array, small.arrays[name]) for array, name in zip(arrays, NAMES, strict=True))


@pytest.mark.parametrize(("source", "shown"), [("../small", "../small"), ("~/small", "small")])
def test_reads_the_original_files(small, obtain, target, monkeypatch, source, shown):
    monkeypatch.setenv("HOME", str(small.folder.parent))
    obtained = obtain(source)
    assert is_small(target, small)
    assert (obtained.source, obtained.stand_in_reason) == (f"Small, from {shown}", None)


@pytest.mark.parametrize("source", ["auto", "../small"])
def test_a_missing_or_altered_file_that_is_wanted_is_named_with_what_is_wrong(small, project, obtain, source):
    (project / "data/Small").mkdir(parents=True)
    (project / "data/Small/raw").symlink_to(small.folder)
    labels = small.folder / NAMES[1]
    labels.write_bytes(labels.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte.gz: altered or incomplete: its sha256 is not "):
        obtain(source)
    labels.unlink()
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte.gz: not readable \(No such file"):
        obtain(source)


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
