"""CIFAR-10, from its archive or from PNG files with one folder for each class.

If they are not available, images of drawn digits replace them.
"""

import pickle
import tarfile
import warnings
from io import BytesIO
from pathlib import Path

import numpy as np

from accelbench.data.arrays import Arrays, save_split
from accelbench.data.obtain import File, FileSet, Obtained, Target
from accelbench.data.pictures import convert, open_source
from accelbench.data.stand_ins import save_drawn

SIDE = 32
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ARCHIVE = File("cifar-10-python.tar.gz", "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce")
BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}


def read(path: Path, target: Target) -> Obtained:
    """Reads the original archive, or a folder or zip archive of PNG files that has one folder for each class."""
    if not path.name.endswith((".tar.gz", ".tgz")):
        return convert(open_source(path), CLASSES, SIDE, target.folder)
    # Unpickling can run code. Only bytes with the expected checksum are unpickled.
    with tarfile.open(fileobj=BytesIO(ARCHIVE.read(path))) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns about pickles of Python 2
        for split, names in BATCHES.items():
            files = [archive.extractfile(f"cifar-10-batches-py/{name}") for name in names]
            batches = [pickle.load(file, encoding="bytes") for file in files if file]
            pixels = np.concatenate([batch[b"data"] for batch in batches])
            labels = np.concatenate([batch[b"labels"] for batch in batches]).astype(np.uint8)
            images = pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
            save_split(target.folder, split, Arrays(images, labels))
    return Obtained()


DATA_SET = FileSet(
    title="CIFAR-10",
    home="data/cifar-10-python.tar.gz",  # where torchvision keeps it
    classes=CLASSES,
    files=[ARCHIVE],
    mirrors=["https://www.cs.toronto.edu/~kriz/"],
    read=read,
    stand_in=lambda target: save_drawn(target.folder, SIDE, in_colour=True),
    shape=(3, SIDE, SIDE),
)
