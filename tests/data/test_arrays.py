import numpy as np
import pytest

from accelbench.data.arrays import array_path, load_split
from accelbench.errors import DataError, UnsupportedError


@pytest.fixture
def folder(tmp_path):
    for split, num in {"train": 5, "test": 2}.items():
        np.save(array_path(tmp_path, split, "images"), np.full((num, 28, 28), num, np.uint8))
        np.save(array_path(tmp_path, split, "labels"), np.arange(num, dtype=np.uint8))
    return tmp_path


def test_becomes_a_tensor_without_a_warning_and_without_touching_read_only_files(folder):
    path = array_path(folder, "train", "images")
    path.chmod(0o444)
    before = path.read_bytes()
    images = load_split(folder, "train").images
    images += 1  # torch warns of arrays that can't be written
    assert images[0, 0, 0] == 6
    assert path.read_bytes() == before


def test_the_first_images_alone_are_read_or_refused_if_there_are_fewer(folder):
    assert load_split(folder, "train", 3).labels.tolist() == [0, 1, 2]
    with pytest.raises(UnsupportedError, match=f"data.train_images=6: {folder.name} has 5 here"):
        load_split(folder, "train", 6)


def test_an_incomplete_file_is_named_with_what_mends_it(folder):
    path = array_path(folder, "train", "images")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=rf"train_images.npy: not readable .*; remove {folder}: the next run"):
        load_split(folder, "train")
