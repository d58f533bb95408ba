import dataclasses
import gzip
import shutil

import numpy as np
import pytest

from accelbench.data.arrays import load_split
from accelbench.data.idx import file_set
from accelbench.data.sets import fashion_mnist, mnist
from accelbench.errors import DataError

TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.fixture
def small_mnist(small, monkeypatch):
    """The small set in place of the four original files; its mirror can't be reached."""
    idx_set = dataclasses.replace(small.idx_set, mirrors=("http://127.0.0.1:9/",))
    same = {name: getattr(mnist.DATA_SET, name) for name in ("title", "home", "classes", "stand_in")}
    monkeypatch.setattr(mnist, "DATA_SET", file_set(idx_set, **same))
    return small


@pytest.fixture
def obtain(project, target):
    return lambda source: mnist.DATA_SET.obtain("mnist", source, project, target)


def is_small(target, small):
    return np.array_equal(load_split(target.folder, "train").images, small.arrays["train_images"])


def test_a_folder_relative_to_the_project(small_mnist, obtain, target):
    obtained = obtain("../small")
    assert is_small(target, small_mnist)
    assert obtained.source == "MNIST, from ../small"
    assert obtained.stand_in_reason is None


def test_a_folder_of_the_home(small_mnist, obtain, monkeypatch):
    monkeypatch.setenv("HOME", str(small_mnist.folder.parent))
    assert obtain("~/small").source == "MNIST, from small"


@pytest.mark.parametrize("place", ["data/MNIST/raw", "data/.downloads/mnist"])
def test_auto_takes_what_is_there(small_mnist, project, obtain, target, place):
    shutil.copytree(small_mnist.folder, project / place)
    assert obtain("auto").stand_in_reason is None
    assert is_small(target, small_mnist)


def test_auto_falls_back_to_the_stand_in_and_says_why(small_mnist, obtain, target):
    obtained = obtain("auto")
    assert not is_small(target, small_mnist)
    assert obtained.source.startswith("stand-in for MNIST: a drawn digit for each class")
    assert obtained.stand_in_reason.startswith("data/MNIST/raw is not there; the download failed")


def test_what_lies_in_its_own_place_is_wanted_and_its_damage_is_an_error(small_mnist, project, obtain):
    shutil.copytree(small_mnist.folder, project / "data/MNIST/raw")
    (project / "data/MNIST/raw" / small_mnist.packed("test_labels").name).unlink()
    with pytest.raises(DataError, match=r"t10k-l\.gz: missing"):
        obtain("auto")


def test_a_named_folder_never_falls_back(small_mnist, obtain):
    with pytest.raises(DataError, match="nowhere is not a readable folder"):
        obtain("nowhere")


def test_the_real_files_unpacked_are_mnist_too(mnist_raw, obtain, target, tmp_path):
    for packed in mnist_raw.glob("*.gz"):
        (tmp_path / "raw").mkdir(exist_ok=True)
        (tmp_path / "raw" / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    obtain(str(tmp_path / "raw"))
    assert np.bincount(load_split(target.folder, "test").labels).tolist() == TEST_COUNTS


def test_one_altered_pixel_of_the_real_files_is_found(mnist_raw, obtain, tmp_path):
    shutil.copytree(mnist_raw, tmp_path / "raw", copy_function=shutil.copyfile)
    packed = tmp_path / "raw" / "t10k-images-idx3-ubyte.gz"
    content = bytearray(gzip.decompress(packed.read_bytes()))
    content[5000] ^= 1
    packed.with_suffix("").write_bytes(content)
    packed.unlink()
    with pytest.raises(DataError, match="t10k-images-idx3-ubyte: altered"):
        obtain(str(tmp_path))


def test_real_fashion_mnist(shared, project, target):
    folder = shared("fashion_mnist") / "raw"
    assert fashion_mnist.DATA_SET.obtain("fashion_mnist", str(folder), project, target).stand_in_reason is None
    for split, num in (("train", 6_000), ("test", 1_000)):
        assert np.bincount(load_split(target.folder, split).labels).tolist() == [num] * 10
