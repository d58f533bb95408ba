import os
import pickle
import socket
import tarfile
from pathlib import Path

import numpy as np
import pytest

from accelbench.data import sets
from accelbench.data.arrays import load_encoded, load_split
from accelbench.data.sets import CIFAR10_BATCHES, DATA_SETS, MNIST_NAMES, download, source_files
from accelbench.errors import DataError, DownloadError
from accelbench.schema.serialize import sha256_of

from .conftest import counts, write

REAL = Path(os.environ.get("ACCELBENCH_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
PETS = {"image_size": 64, "max_images": 1_000_000}


@pytest.fixture
def obtain(small, project, out):
    """A function that obtains the small set, or one of `DATA_SETS`, into `out`."""

    def obtain(source, name="small", **settings):
        return DATA_SETS.get(name, small.data_set).obtain(name, str(source), project, out, settings)

    return obtain


def test_source_files_that_appear_or_change_show_and_nothing_else_does(tmp_path):
    lists = [source_files(tmp_path, "mnist", "auto")]
    for content in (b"1", b"12"):
        write(tmp_path / "data/MNIST/raw/images", content)
        lists.append(source_files(tmp_path, "mnist", "auto"))
    assert [files["num_files"] for files in lists] == [0, 1, 1]
    assert len({files["digest"] for files in lists}) == 3
    assert source_files(tmp_path, "mnist", "data/MNIST/raw")["digest"] == lists[-1]["digest"]


@pytest.mark.parametrize(("source", "shown"), [("../small", "../small"), ("~/small", "small")])
def test_reads_the_original_files(small, obtain, out, monkeypatch, source, shown):
    monkeypatch.setenv("HOME", str(small.folder.parent))
    obtained = obtain(source)
    train, test = (load_split(out, split) for split in ("train", "test"))
    found = (train.images, train.labels, test.images, test.labels)
    assert all(map(np.array_equal, found, small.arrays))
    assert (obtained.source, obtained.stand_in_reason) == (f"Small, from {shown}", None)


@pytest.mark.parametrize("source", ["auto", "../small"])
def test_a_missing_or_altered_file_that_is_wanted_is_named_with_what_is_wrong(small, project, obtain, source):
    (project / "data/Small").mkdir(parents=True)
    (project / "data/Small/raw").symlink_to(small.folder)
    labels = small.folder / MNIST_NAMES[1]
    labels.write_bytes(labels.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte.gz: altered or incomplete: its sha256 is not "):
        obtain(source)
    labels.unlink()
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte.gz: not readable \(No such file"):
        obtain(source)


def test_fetches_only_what_is_missing_or_damaged(small, out):
    mirror = f"{small.folder.as_uri()}/"
    download(small.sha256, mirror, out)
    kept, missing, damaged, _ = (out / name for name in small.sha256)
    before = kept.stat().st_mtime_ns
    missing.unlink()
    damaged.write_bytes(b"half")
    download(small.sha256, mirror, out)
    assert {path.name: sha256_of(path) for path in out.iterdir()} == small.sha256
    assert kept.stat().st_mtime_ns == before


def test_what_comes_altered_or_from_a_silent_mirror_is_not_kept(small, out, monkeypatch):
    first, second, *_ = small.sha256
    write(small.folder / second, b"<html>Please log in</html>")
    with pytest.raises(DownloadError, match=rf"{second} arrived altered or incomplete \(26 bytes\)"):
        download(small.sha256, f"{small.folder.as_uri()}/", out)
    assert [path.name for path in out.iterdir()] == [first]
    monkeypatch.setattr(sets, "STALL_S", 0.2)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:  # it takes the connection and never answers
        silent = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(DownloadError, match=f"the download failed: {silent}: timed out"):
            download(small.sha256, silent, out)
    assert [path.name for path in out.iterdir()] == [first]


# As Python 2 wrote texts, without an encoding, and the truth values of an array's type, as numbers.
OF_PYTHON2 = {b"X\4\0\0\0data": b"U\4data", b"X\6\0\0\0labels": b"U\6labels", b"\x89\x88": b"K\0K\1"}


def test_the_archive_of_cifar10_is_read_and_another_one_is_refused_before_it_is_unpickled(
    obtain, out, tmp_path, monkeypatch
):
    names = [name for names in CIFAR10_BATCHES.values() for name in names]
    pixels = {name: np.random.default_rng(i).integers(0, 128, (20, 3072), np.uint8) for i, name in enumerate(names)}
    folder, path = tmp_path / "cifar-10-batches-py", tmp_path / "cifar.tar.gz"

    def packed():
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, folder.name)

    for name in names:
        content = pickle.dumps({"data": pixels[name], "labels": [i % 10 for i in range(20)]}, 2)
        for now, before in OF_PYTHON2.items():
            assert now in content
            content = content.replace(now, before)
        write(folder / name, content)
    packed()
    monkeypatch.setattr(sets, "CIFAR10_FILES", {"cifar-10-python.tar.gz": sha256_of(path)})
    obtain(path, "cifar10")
    train, test = (load_split(out, split) for split in ("train", "test"))
    assert train.images.shape == (100, 32, 32, 3)
    assert test.labels.tolist() == [i % 10 for i in range(20)]
    assert np.array_equal(train.images[20].transpose(2, 0, 1).ravel(), pixels["data_batch_2"][0])

    (folder / "test_batch").write_bytes(b"csys\nexit\n(tR.")
    packed()
    with pytest.raises(DataError, match="cifar.tar.gz: altered or incomplete: its sha256 is not "):
        obtain(path, "cifar10")


MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
PART = "100 of 1,200 pictures of cats vs dogs, from train"


@pytest.mark.parametrize(
    ("path", "settings", "shape", "num_test", "source", "num_refused"),
    [
        ("mnist/raw", {}, (60_000, 28, 28), MNIST_TEST, "MNIST, from raw", 0),
        ("fashion_mnist/raw", {}, (60_000, 28, 28), [1_000] * 10, "Fashion-MNIST, from raw", 0),
        ("cifar10", {}, (5_000, 32, 32, 3), [100] * 10, "CIFAR-10, from cifar10", 0),
        ("cats_vs_dogs", PETS, (1_200, 64, 64, 3), [200, 200], "cats vs dogs, from cats_vs_dogs", 20),
        ("cats_vs_dogs/train", PETS | {"max_images": 100}, (80, 64, 64, 3), [12, 8], PART, 0),
        ("cats_vs_dogs/odd", PETS, (15, 64, 64, 3), [3, 1], "cats vs dogs, from odd", 1),
    ],
)
def test_the_real_files(obtain, out, path, settings, shape, num_test, source, num_refused):
    if not (REAL / path).is_dir():
        pytest.skip(f"{path} is not here: set ACCELBENCH_TEST_DATA to the folder above it")
    obtained = obtain(REAL / path, path.partition("/")[0], **settings)
    images = load_split(out, "train").images
    assert (images.shape, counts(out)["test"]) == (shape, num_test)
    assert (obtained.source, obtained.stand_in_reason is None) == (source, source != PART)
    assert len(obtained.refused) == num_refused
    if path == "cifar10":  # the whole set's mean; this is a tenth of it
        assert images.mean(axis=(0, 1, 2)) / 255 == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.01)


def test_without_a_network_drawn_digits_stand_in_and_say_so(obtain, out, monkeypatch):
    monkeypatch.setattr(sets, "NUM_DRAWN_PETS", 40)
    obtained = obtain("auto", "cats_vs_dogs", **PETS)
    assert obtained.source == "stand-in for cats vs dogs: a drawn digit for each class, 40 pictures"
    assert "the download failed: https://download.microsoft.com" in obtained.stand_in_reason
    assert counts(out) == {"train": [16, 16], "test": [4, 4]}
    assert load_split(out, "train").images.shape == (32, 64, 64, 3)
    assert load_encoded(out, "train")[0][:2] == b"\xff\xd8"
