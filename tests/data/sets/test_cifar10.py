import dataclasses
import pickle
import tarfile

import numpy as np
import pytest

from accelbench.data.arrays import load_split
from accelbench.data.sets import cifar10
from accelbench.data.sets.cifar10 import BATCHES, DATA_SET
from accelbench.errors import DataError
from accelbench.schema.serialize import sha256_of

NAMES = [name for names in BATCHES.values() for name in names]


def text(content: str) -> bytes:
    return b"U" + bytes([len(content)]) + content.encode()


def numbers(values) -> bytes:
    return b"](" + b"".join(b"K" + bytes([value]) for value in values) + b"e"


def as_python_2_pickles(pixels: np.ndarray, labels: list[int]) -> bytes:
    """A batch, opcode by opcode as in the original files, which numpy of Python 2 pickled."""
    shape = b"".join(b"M" + length.to_bytes(2, "little") for length in pixels.shape)
    kind = b"cnumpy\ndtype\n" + text("u1") + b"K\x00K\x01\x87R(K\x03" + text("|")
    kind += b"NNN" + 2 * b"J\xff\xff\xff\xff" + b"K\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text("b") + b"\x87R"
    array += b"(K\x01" + shape + b"\x86" + kind + b"\x89T" + pixels.size.to_bytes(4, "little")
    array += pixels.tobytes() + b"tb"
    batch = text("batch_label") + text("training batch 1 of 5") + text("labels") + numbers(labels)
    return b"\x80\x02}(" + batch + text("data") + array + b"u."


def pixels_of(name: str) -> np.ndarray:
    return np.random.default_rng(NAMES.index(name)).integers(0, 256, (20, 3072), dtype=np.uint8)


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """Packs little batches in the original's form, whose checksum stands for the original's."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_bytes(as_python_2_pickles(pixels_of(name), [i % 10 for i in range(20)]))
    path = archived(folder)
    monkeypatch.setattr(cifar10, "ARCHIVE", dataclasses.replace(cifar10.ARCHIVE, sha256=sha256_of(path)))
    return path


def archived(folder):
    path = folder.parent / "cifar.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        made.add(folder, folder.name)
    return path


def test_the_original_archive_is_read(packed, project, target):
    DATA_SET.obtain("cifar10", str(packed), project, target)
    train, test = (load_split(target.folder, split) for split in ("train", "test"))
    assert train.images.shape == (100, 32, 32, 3)
    assert test.labels.tolist() == [i % 10 for i in range(20)]
    assert np.array_equal(train.images[20].transpose(2, 0, 1).ravel(), pixels_of("data_batch_2")[0])


class Harm:
    """Its pickle creates a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_another_archive_is_refused_before_anything_is_unpickled(packed, project, target, tmp_path):
    (tmp_path / "cifar-10-batches-py/test_batch").write_bytes(pickle.dumps(Harm(tmp_path / "harm")))
    path = archived(tmp_path / "cifar-10-batches-py")
    with pytest.raises(DataError, match="cifar.tar.gz: altered or incomplete: its sha256 is not "):
        DATA_SET.obtain("cifar10", str(path), project, target)
    assert not (tmp_path / "harm").exists()


def test_real_pictures_in_folders_by_class(shared, project, target):
    obtained = DATA_SET.obtain("cifar10", str(shared("cifar10")), project, target)
    assert obtained.refused == []
    for split, num in (("train", 500), ("test", 100)):
        assert np.bincount(load_split(target.folder, split).labels).tolist() == [num] * 10
    # The whole set's mean; this is a tenth of it.
    mean = load_split(target.folder, "train").images.mean(axis=(0, 1, 2)) / 255
    assert mean == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.01)
