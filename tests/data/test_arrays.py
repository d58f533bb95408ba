import hashlib
import json

import numpy as np
import pytest

from accelbench.data.arrays import SPLITS, Arrays, Obtained, check_arrays, load_split, read_manifest, save_split
from accelbench.data.prepare import describe
from accelbench.errors import DataError, UnsupportedError
from accelbench.project import MANIFEST
from accelbench.schema.measurement import Data

IMAGES = "train_images.npy"


def make(folder, **values):
    folder.mkdir(exist_ok=True)
    for number, split in enumerate(SPLITS):
        labels = np.arange(5, dtype=np.uint8) % 2
        save_split(folder, split, Arrays(np.full((5, 2, 2), number + 5, np.uint8), labels))
    describe(Obtained(**{"classes": ("no", "yes"), "source": "here", **values}), "tiny", folder)
    return read_manifest(folder).digest


def test_arrays_become_tensors_without_a_warning_and_without_touching_read_only_files(tmp_path):
    make(tmp_path)
    path = tmp_path / IMAGES
    path.chmod(0o444)
    before = path.read_bytes()
    images = load_split(tmp_path, "train").images
    images += 1  # torch warns of arrays that can't be written
    assert images[0, 0, 0] == 6
    assert path.read_bytes() == before
    assert load_split(tmp_path, "train", 3).labels.tolist() == [0, 1, 0]
    with pytest.raises(UnsupportedError, match=f"data.train_images=6: {tmp_path.name} has 5 here"):
        load_split(tmp_path, "train", 6)


def test_a_manifest_says_where_the_data_came_from_and_has_one_digest_however_they_came(tmp_path):
    digest = make(tmp_path)
    assert read_manifest(tmp_path) == Data(name="tiny", digest=digest, source="here", stand_in=False)
    described = json.loads((tmp_path / MANIFEST).read_text())["files"][IMAGES]
    checksum = hashlib.sha256((tmp_path / IMAGES).read_bytes()).hexdigest()
    assert described == {"shape": [5, 2, 2], "dtype": "uint8", "sha256": checksum}
    assert make(tmp_path, source="downloaded") == digest
    assert make(tmp_path, refused=("cat.7.jpg: empty",)) != digest
    assert make(tmp_path, classes=("cat", "dog")) != digest
    assert make(tmp_path, stand_in_reason="no network") != digest
    assert read_manifest(tmp_path).stand_in is True


@pytest.mark.parametrize(
    ("name", "altered", "read", "problem"),
    [
        (IMAGES, lambda old: old[:-1] + b"\1", check_arrays, "altered: its checksum differs"),
        (IMAGES, lambda old: old[:100], lambda folder: load_split(folder, "train"), ".*"),
        (MANIFEST, lambda old: old.replace(b"false", b"true"), read_manifest, "altered: its digest does not fit"),
    ],
)
def test_a_damaged_file_is_named_with_what_mends_it(tmp_path, name, altered, read, problem):
    make(tmp_path)
    check_arrays(tmp_path)
    path = tmp_path / name
    path.write_bytes(altered(path.read_bytes()))
    with pytest.raises(DataError, match=rf"{name}: not readable \({problem}.*\); remove {tmp_path}: the next run"):
        read(tmp_path)
