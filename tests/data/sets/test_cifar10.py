import hashlib
import io
import pickle
import sys
import tarfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from accelbench.data.arrays import load_split
from accelbench.data.sets import cifar10
from accelbench.data.sets.cifar10 import BATCHES, DATA_SET, FILES, _unpickle
from accelbench.errors import DataError


def text(content: str) -> bytes:
    return b"U" + bytes([len(content)]) + content.encode()


def numbers(values) -> bytes:
    return b"](" + b"".join(b"K" + bytes([value]) for value in values) + b"e"


def as_python_2_pickles(pixels: np.ndarray, labels: list[int]) -> bytes:
    """A batch, opcode by opcode as in the original files, which numpy of Python 2 pickled."""
    shape = b"".join(b"M" + length.to_bytes(2, "little") for length in pixels.shape)
    kind = (
        b"cnumpy\ndtype\n"
        + text("u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text("|")
        + b"NNN"
        + 2 * b"J\xff\xff\xff\xff"
        + b"K\x00tb"
    )
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text("b") + b"\x87R"
    array += (
        b"(K\x01" + shape + b"\x86" + kind + b"\x89T" + pixels.size.to_bytes(4, "little") + pixels.tobytes() + b"tb"
    )
    batch = text("batch_label") + text("training batch 1 of 5") + text("labels") + numbers(labels)
    return b"\x80\x02}(" + batch + text("data") + array + b"u."


def pixels_of(name: str) -> np.ndarray:
    return np.random.default_rng(FILES.index(name)).integers(0, 256, (20, 3072), dtype=np.uint8)


@pytest.fixture
def batches(tmp_path, monkeypatch):
    """Little batches in the original's form, whose checksums stand for the original's."""
    folder = tmp_path / "above" / BATCHES
    folder.mkdir(parents=True)
    for checksums in (cifar10.TRAIN_BATCHES, cifar10.TEST_BATCHES, cifar10.META):
        for name in checksums:
            (folder / name).write_bytes(as_python_2_pickles(pixels_of(name), [i % 10 for i in range(20)]))
            accept(folder / name, monkeypatch)
    return folder


def accept(path, monkeypatch):
    """Has the file's checksum stand for the original's."""
    (known,) = [d for d in (cifar10.TRAIN_BATCHES, cifar10.TEST_BATCHES, cifar10.META) if path.name in d]
    monkeypatch.setitem(known, path.name, hashlib.md5(path.read_bytes()).hexdigest())


def check(target):
    train, test = (load_split(target.folder, split) for split in ("train", "test"))
    assert train.images.shape == (100, 32, 32, 3)
    assert test.labels.tolist() == [i % 10 for i in range(20)]
    assert np.array_equal(train.images[20].transpose(2, 0, 1).ravel(), pixels_of("data_batch_2")[0])


def test_the_python_batches_and_the_folder_above_them(batches, project, target):
    DATA_SET.obtain("cifar10", str(batches), project, target)
    check(target)
    DATA_SET.obtain("cifar10", str(batches.parent), project, target)
    check(target)


def test_the_archive_of_the_batches(batches, project, target, tmp_path):
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as made:
        made.add(batches, BATCHES)
        info = tarfile.TarInfo(f"{BATCHES}/readme.html")
        made.addfile(info, io.BytesIO())
    DATA_SET.obtain("cifar10", str(tmp_path / "cifar.tar.gz"), project, target)
    check(target)


class Harm:
    """Its pickle creates a file when it is read by Python's own unpickler."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_an_altered_batch_is_refused_before_it_is_unpickled(batches, project, target, tmp_path):
    (batches / "test_batch").write_bytes(pickle.dumps(Harm(tmp_path / "harm")))
    with pytest.raises(DataError, match="a batch is altered or incomplete: test_batch"):
        DATA_SET.obtain("cifar10", str(batches), project, target)
    assert not (tmp_path / "harm").exists()


def test_a_pickle_that_would_run_code_is_refused_even_if_its_checksum_is_right(
    batches, project, target, tmp_path, monkeypatch
):
    (batches / "data_batch_3").write_bytes(pickle.dumps(Harm(tmp_path / "harm"), protocol=2))
    accept(batches / "data_batch_3", monkeypatch)
    with pytest.raises(DataError, match="data_batch_3: .*names io.open"):
        DATA_SET.obtain("cifar10", str(batches), project, target)
    assert not (tmp_path / "harm").exists()


def test_a_file_that_is_replaced_after_its_check_is_never_unpickled(batches, project, target, tmp_path):
    """Replaces a batch whenever it is opened a second time, which is where a check and a read are two steps."""
    num_opened = 0

    def replace(event, arguments):
        nonlocal num_opened
        if watching and event == "open" and str(arguments[0]).endswith("/data_batch_1") and "r" in (arguments[1] or ""):
            num_opened += 1
            if num_opened == 2:
                (batches / "data_batch_1").write_bytes(pickle.dumps(Harm(tmp_path / "harm")))

    watching = True
    sys.addaudithook(replace)  # which can't be removed
    DATA_SET.obtain("cifar10", str(batches), project, target)
    watching = False
    check(target)
    assert not (tmp_path / "harm").exists()


def test_missing_batches_are_named(batches, project, target):
    (batches / "data_batch_3").unlink()
    (batches / "test_batch").unlink()
    with pytest.raises(DataError, match="missing data_batch_3, test_batch"):
        DATA_SET.obtain("cifar10", str(batches), project, target)


def test_real_pictures_in_folders_by_class(shared, project, target):
    obtained = DATA_SET.obtain("cifar10", str(shared("cifar10")), project, target)
    assert obtained.refused == []
    for split, num in (("train", 500), ("test", 100)):
        assert np.bincount(load_split(target.folder, split).labels).tolist() == [num] * 10
    # The whole set's mean; this is a tenth of it.
    mean = load_split(target.folder, "train").images.mean(axis=(0, 1, 2)) / 255
    assert mean == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.01)


def test_without_a_network_drawn_shapes_stand_in(project, target):
    obtained = DATA_SET.obtain("cifar10", "auto", project, target)
    assert obtained.source.startswith("stand-in for CIFAR-10: a drawn digit for each class")
    assert load_split(target.folder, "train").images.shape == (12_000, 32, 32, 3)


@pytest.mark.parametrize("value", [Path("x"), OrderedDict(), print, 1j])
def test_anything_else_is_named_and_not_made(value):
    with pytest.raises(DataError, match=r"it names \S+, which is neither an array nor a plain container"):
        _unpickle(pickle.dumps([value]))


@pytest.mark.parametrize("content", [b"", b"no pickle", pickle.dumps([1])[:-1], b"cos\n", b"(" * 100, b"R.", b"0."])
def test_a_damaged_pickle_is_refused(content):
    with pytest.raises(DataError):
        _unpickle(content)


def array(shape, kind=b"u1", content=b"abcd", is_fortran=b"\x89"):
    """The opcodes of a pickled array."""
    named = b"cnumpy\ndtype\nU\x02" + kind + b"\x85R"
    state = b"(K\x01(" + b"".join(b"K" + bytes([n]) for n in shape) + b"t" + named + is_fortran
    return b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R" + state + b"U" + bytes([len(content)]) + content + b"tb."


def test_an_array_is_read():
    assert _unpickle(array((2, 2))).array().tolist() == [[97, 98], [99, 100]]


@pytest.mark.parametrize(
    "opcodes",
    [
        array((3, 2)),
        array((2, 2), kind=b"|O"),
        array((2, 2), is_fortran=b"\x88"),
        b"cnumpy.core.multiarray\n_reconstruct\n)R.",
        b"cnumpy.core.multiarray\n_reconstruct\n)RK\x07b.",
    ],
    ids=["too short", "of objects", "in another order", "empty", "without a state"],
)
def test_an_array_of_another_kind_is_refused(opcodes):
    with pytest.raises(DataError, match="an array is"):
        _unpickle(opcodes).array()
