"""The data sets: where their files are looked for, what is refused, and the real files where they are at hand."""

import pickle
import tarfile

import numpy as np
import pytest

from accelbench.data import sets
from accelbench.data.arrays import load_encoded, load_split
from accelbench.data.sets import CIFAR10_BATCHES, DATA_SETS, MNIST_NAMES, source_files
from accelbench.errors import DataError
from accelbench.schema.serialize import sha256_of

PETS = {"image_size": 64, "max_images": 1_000_000}


@pytest.fixture
def obtain(small, project, out):
    return lambda source: small.data_set().obtain("small", source, project, out, {})


def counts(folder):
    return {split: np.bincount(load_split(folder, split).labels).tolist() for split in ("train", "test")}


def test_source_files_that_appear_or_change_show_and_nothing_else_does(tmp_path):
    raw = tmp_path / "data" / "MNIST" / "raw"
    lists = [source_files(tmp_path, "mnist", "auto")]
    raw.mkdir(parents=True)
    for content in (b"1", b"12"):
        (raw / "images").write_bytes(content)
        lists.append(source_files(tmp_path, "mnist", "auto"))
    assert [files["num_files"] for files in lists] == [0, 1, 1]
    assert len({files["digest"] for files in lists}) == 3
    assert source_files(tmp_path, "mnist", "data/MNIST/raw")["digest"] == lists[-1]["digest"]
    assert source_files(tmp_path, "mnist", "nowhere")["num_files"] == 0


@pytest.mark.parametrize(("source", "shown"), [("../small", "../small"), ("~/small", "small")])
def test_reads_the_original_files(small, obtain, out, monkeypatch, source, shown):
    monkeypatch.setenv("HOME", str(small.folder.parent))
    obtained = obtain(source)
    train, test = (load_split(out, split) for split in ("train", "test"))
    arrays = (train.images, train.labels, test.images, test.labels)
    assert all(np.array_equal(array, small.arrays[name]) for array, name in zip(arrays, MNIST_NAMES, strict=True))
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


@pytest.mark.parametrize(
    ("name", "num_of_class"),
    [
        ("mnist", [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
        ("fashion_mnist", [1_000] * 10),
    ],
)
def test_the_real_files(shared, project, out, name, num_of_class):
    obtained = DATA_SETS[name].obtain(name, str(shared(name) / "raw"), project, out, {})
    assert obtained.stand_in_reason is None
    assert load_split(out, "train").images.shape == (60_000, 28, 28)
    assert counts(out)["test"] == num_of_class


def text(content: str) -> bytes:
    return b"U" + bytes([len(content)]) + content.encode()


def as_python_2_pickles(pixels: np.ndarray, labels: list[int]) -> bytes:
    """A batch, opcode by opcode as in the original files, which numpy of Python 2 pickled."""
    numbers = b"](" + b"".join(b"K" + bytes([value]) for value in labels) + b"e"
    shape = b"".join(b"M" + length.to_bytes(2, "little") for length in pixels.shape)
    kind = b"cnumpy\ndtype\n" + text("u1") + b"K\x00K\x01\x87R(K\x03" + text("|")
    kind += b"NNN" + 2 * b"J\xff\xff\xff\xff" + b"K\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text("b") + b"\x87R"
    array += b"(K\x01" + shape + b"\x86" + kind + b"\x89T" + pixels.size.to_bytes(4, "little")
    array += pixels.tobytes() + b"tb"
    batch = text("batch_label") + text("training batch 1 of 5") + text("labels") + numbers
    return b"\x80\x02}(" + batch + text("data") + array + b"u."


class Harm:
    """Its pickle creates a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_the_archive_of_cifar10_is_read_and_another_one_is_refused_before_it_is_unpickled(
    project, out, tmp_path, monkeypatch
):
    names = [name for names in CIFAR10_BATCHES.values() for name in names]
    pixels = {name: np.random.default_rng(i).integers(0, 256, (20, 3072), np.uint8) for i, name in enumerate(names)}
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    path = tmp_path / "cifar.tar.gz"

    def packed():
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, folder.name)

    for name in names:
        (folder / name).write_bytes(as_python_2_pickles(pixels[name], [i % 10 for i in range(20)]))
    packed()
    monkeypatch.setattr(sets, "CIFAR10_FILES", {"cifar-10-python.tar.gz": sha256_of(path)})
    DATA_SETS["cifar10"].obtain("cifar10", str(path), project, out, {})
    train, test = (load_split(out, split) for split in ("train", "test"))
    assert train.images.shape == (100, 32, 32, 3)
    assert test.labels.tolist() == [i % 10 for i in range(20)]
    assert np.array_equal(train.images[20].transpose(2, 0, 1).ravel(), pixels["data_batch_2"][0])

    (folder / "test_batch").write_bytes(pickle.dumps(Harm(tmp_path / "harm")))
    packed()
    with pytest.raises(DataError, match="cifar.tar.gz: altered or incomplete: its sha256 is not "):
        DATA_SETS["cifar10"].obtain("cifar10", str(path), project, out, {})
    assert not (tmp_path / "harm").exists()


def test_real_pictures_in_folders_by_class(shared, project, out):
    obtained = DATA_SETS["cifar10"].obtain("cifar10", str(shared("cifar10")), project, out, {})
    assert obtained.refused == []
    assert counts(out) == {"train": [500] * 10, "test": [100] * 10}
    # The whole set's mean; this is a tenth of it.
    mean = load_split(out, "train").images.mean(axis=(0, 1, 2)) / 255
    assert mean == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.01)


@pytest.mark.parametrize(
    ("part", "most", "expected", "source"),
    [
        ("train", 100, {"train": [40, 40], "test": [10, 10]}, "100 of 1,200 pictures of cats vs dogs, from train"),
        ("", 1_000_000, {"train": [600, 600], "test": [200, 200]}, "cats vs dogs, from cats_vs_dogs"),
    ],
)
def test_real_photographs_whole_and_in_part(shared, project, out, part, most, expected, source):
    settings = {"image_size": 16, "max_images": most}
    folder = shared("cats_vs_dogs") / part
    obtained = DATA_SETS["cats_vs_dogs"].obtain("cats_vs_dogs", str(folder), project, out, settings)
    found = counts(out)
    assert {split: sum(num) for split, num in found.items()} == {split: sum(num) for split, num in expected.items()}
    assert (obtained.source, obtained.stand_in_reason is None) == (source, not part)
    if not part:
        assert found == expected
        assert len(obtained.refused) == 20
        assert all("in neither the training nor the test folder" in line for line in obtained.refused)


def test_every_odd_file_has_its_expected_fate(shared, project, out):
    odd = str(shared("cats_vs_dogs") / "odd")
    obtained = DATA_SETS["cats_vs_dogs"].obtain("cats_vs_dogs", odd, project, out, PETS)
    assert obtained.refused == ["PetImages/Cat/666.jpg: no picture, or of an unknown format"]
    assert sum(sum(split) for split in counts(out).values()) == 19


def test_without_a_network_drawn_digits_stand_in_and_say_so(project, out, monkeypatch):
    monkeypatch.setattr(sets, "NUM_DRAWN_PETS", 40)
    obtained = DATA_SETS["cats_vs_dogs"].obtain("cats_vs_dogs", "auto", project, out, PETS)
    assert obtained.source == "stand-in for cats vs dogs: a drawn digit for each class, 40 pictures"
    assert "the download failed: https://download.microsoft.com" in obtained.stand_in_reason
    assert counts(out) == {"train": [16, 16], "test": [4, 4]}
    assert load_split(out, "train").images.shape == (32, 64, 64, 3)
    assert load_encoded(out, "train")[0][:2] == b"\xff\xd8"
