import hashlib
import json

import numpy as np
import pytest

from accelbench.data.arrays import (
    SPLITS,
    Arrays,
    Obtained,
    array_path,
    check_arrays,
    read_manifest,
    save_split,
)
from accelbench.data.prepare import describe
from accelbench.errors import DataError
from accelbench.project import MANIFEST
from accelbench.schema.measurement import Data


def make(folder, **values):
    """Writes a little data set and returns its digest."""
    folder.mkdir(exist_ok=True)
    for number, split in enumerate(SPLITS):
        save_split(folder, split, Arrays(np.full((3, 2, 2), number, np.uint8), np.zeros(3, np.uint8)))
    describe(Obtained(**{"classes": ("no", "yes"), "source": "here", **values}), "tiny", folder)
    return read_manifest(folder).digest


def test_says_where_the_data_came_from_and_has_one_digest_however_it_came(tmp_path):
    digest = make(tmp_path / "a")
    assert read_manifest(tmp_path / "a") == Data(name="tiny", digest=digest, source="here", stand_in=False)
    assert make(tmp_path / "b", source="downloaded") == digest
    assert make(tmp_path / "b", refused=("cat.7.jpg: empty",)) != digest
    assert make(tmp_path / "b", classes=("cat", "dog")) != digest
    assert make(tmp_path / "b", stand_in_reason="no network") != digest
    assert read_manifest(tmp_path / "b").stand_in is True


def test_an_altered_manifest_is_refused(tmp_path):
    make(tmp_path / "a", stand_in_reason="no network")
    path = tmp_path / "a" / MANIFEST
    path.write_text(path.read_text().replace('"stand_in": true', '"stand_in": false'))
    with pytest.raises(DataError, match="its digest does not fit its contents"):
        read_manifest(tmp_path / "a")


def test_an_array_that_was_altered_is_found(tmp_path):
    make(tmp_path / "a")
    check_arrays(tmp_path / "a")
    described = json.loads((tmp_path / "a" / MANIFEST).read_text())["files"]["train_images.npy"]
    path = array_path(tmp_path / "a", "train", "images")
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    assert described == {"shape": [3, 2, 2], "dtype": "uint8", "sha256": checksum}
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with pytest.raises(DataError, match=r"train_images.npy: not readable \(altered"):
        check_arrays(tmp_path / "a")
