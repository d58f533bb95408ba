"""CIFAR-10: its archive of Python batches, or the same pictures as PNG files by class; drawn digits as a stand-in."""

import hashlib
import pickle
import tarfile
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from accelbench.data.arrays import Arrays, save_split
from accelbench.data.obtain import File, FileSet, Obtained, Target
from accelbench.data.pictures import convert, open_source
from accelbench.data.stand_ins import save_drawn
from accelbench.errors import DataError

SIDE = 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ARCHIVE = File("cifar-10-python.tar.gz", "md5", "c58f30108f718f92721af3b95e74349a")
BATCHES = "cifar-10-batches-py"
# split -> file -> its md5
FILES = {
    "train": {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    "test": {"test_batch": "40351d587109b95175f43aff81a1287e"},
}
NAMES = [name for files in FILES.values() for name in files]


def read(path: Path, target: Target) -> Obtained:
    """Reads the original archive, or PNG files by class (folder or zip)."""
    if not path.name.endswith((".tar.gz", ".tgz")):
        return convert(open_source(path), CLASSES, SIDE, target.folder, resizes=False)
    if not path.is_file() or ARCHIVE.checksum_of(path) != ARCHIVE.checksum:
        raise DataError(f"{path}: missing, altered or incomplete: its md5 is not the original's ({ARCHIVE.checksum})")
    with tarfile.open(path) as archive:
        members = {name: archive.extractfile(f"{BATCHES}/{name}") for name in NAMES}
        return _save(path, {name: member.read() for name, member in members.items() if member}, target)


def _save(place: Path, contents: Mapping[str, bytes], target: Target) -> Obtained:
    for split, files in FILES.items():
        images, labels = [], []
        for name, md5 in files.items():
            if hashlib.md5(contents[name], usedforsecurity=False).hexdigest() != md5:
                raise DataError(f"{place}: a batch is altered or incomplete: {name}'s md5 is not the original's")
            with warnings.catch_warnings():  # NumPy warns of what Python 2 pickled
                warnings.simplefilter("ignore")
                # By its checksum, it holds only an array and lists.
                batch = pickle.loads(contents[name], encoding="bytes")
            images.append(batch[b"data"].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))
            labels.append(np.array(batch[b"labels"], np.uint8))
        save_split(target.folder, split, Arrays(np.concatenate(images), np.concatenate(labels)))
    return Obtained()


DATA_SET = FileSet(
    title="CIFAR-10",
    home="data/cifar-10-python.tar.gz",  # torchvision's own place
    classes=CLASSES,
    files=[ARCHIVE],
    mirrors=["https://www.cs.toronto.edu/~kriz/"],
    read=read,
    stand_in=lambda target: save_drawn(target.folder, SIDE, in_colour=True),
    shape=(3, SIDE, SIDE),
    num_samples=(50_000, 10_000),
)
