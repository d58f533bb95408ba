import hashlib
import io
import pickle
import tarfile

import numpy as np
import pytest
from torchvision.datasets import CIFAR10

from accelbench.data.arrays import load_split
from accelbench.data.sets import cifar10
from accelbench.data.sets.cifar10 import BATCHES, DATA_SET, FILES
from accelbench.errors import DataError


@pytest.fixture
def batches(tmp_path, monkeypatch):
    """Little batches in the original's form, whose checksums stand for the original's."""
    folder = tmp_path / "above" / BATCHES
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    digests = {}
    for name in FILES:
        content = {"data": rng.integers(0, 256, (20, 3072), dtype=np.uint8), "labels": [i % 10 for i in range(20)]}
        packed = pickle.dumps({"label_names": list(cifar10.CLASSES)} if name == "batches.meta" else content)
        (folder / name).write_bytes(packed)
        digests[name] = hashlib.md5(packed).hexdigest()
    monkeypatch.setattr(CIFAR10, "train_list", [[name, digests[name]] for name in FILES[:5]])
    monkeypatch.setattr(CIFAR10, "test_list", [[FILES[5], digests[FILES[5]]]])
    monkeypatch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": digests["batches.meta"]})
    return folder


def check(batches, target):
    train, test = (load_split(target.folder, split) for split in ("train", "test"))
    assert train.images.shape == (100, 32, 32, 3)
    assert test.labels.tolist() == [i % 10 for i in range(20)]
    first = pickle.loads((batches / "data_batch_1").read_bytes())["data"][0]
    assert np.array_equal(train.images[0].transpose(2, 0, 1).ravel(), first)


def test_the_python_batches_and_the_folder_above_them(batches, project, target):
    DATA_SET.obtain("cifar10", str(batches), project, target)
    check(batches, target)
    DATA_SET.obtain("cifar10", str(batches.parent), project, target)
    check(batches, target)


def test_the_archive_of_the_batches(batches, project, target, tmp_path):
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as made:
        made.add(batches, BATCHES)
        info = tarfile.TarInfo(f"{BATCHES}/readme.html")
        made.addfile(info, io.BytesIO())
    DATA_SET.obtain("cifar10", str(tmp_path / "cifar.tar.gz"), project, target)
    check(batches, target)


def test_an_altered_batch_is_refused_before_it_is_unpickled(batches, project, target, tmp_path):
    class Harm:
        def __reduce__(self):
            return (open, (str(tmp_path / "harm"), "w"))

    (batches / "test_batch").write_bytes(pickle.dumps(Harm()))
    with pytest.raises(DataError, match="a batch is altered or incomplete"):
        DATA_SET.obtain("cifar10", str(batches), project, target)
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
    assert obtained.source.startswith("stand-in for CIFAR-10: drawn silhouettes")
    assert load_split(target.folder, "train").images.shape == (10_000, 32, 32, 3)
