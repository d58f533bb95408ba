import numpy as np
import pytest
import torch

from accelbench.data.arrays import array_path, load_split
from accelbench.errors import DataError


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
    tensor = torch.from_numpy(load_split(folder, "train").images)
    tensor += 1
    assert int(tensor[0, 0, 0]) == 6
    assert path.read_bytes() == before


@pytest.mark.parametrize("num_bytes", [0, 50, 1000])
def test_an_incomplete_file_is_named_with_what_mends_it(folder, num_bytes):
    path = array_path(folder, "train", "images")
    path.write_bytes(path.read_bytes()[:num_bytes])
    with pytest.raises(DataError, match=rf"train_images.npy: not readable .*dvc repro data@{folder.name}"):
        load_split(folder, "train")
