"""CIFAR-10: its Python batches, or the same pictures as PNG files by class; drawn digits as a stand-in."""

import hashlib
import pickle
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data import download as downloads
from accelbench.data.archive import read_tar
from accelbench.data.arrays import Arrays, save_split
from accelbench.data.obtain import FileSet, Obtained, Target
from accelbench.data.pictures import convert, open_source
from accelbench.data.stand_ins import save_drawn
from accelbench.errors import DataError

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

SIDE = 32
ARCHIVE = downloads.File("cifar-10-python.tar.gz", "md5", "c58f30108f718f92721af3b95e74349a")
MIRRORS = ("https://www.cs.toronto.edu/~kriz/",)
BATCHES = "cifar-10-batches-py"
TRAIN_BATCHES = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
}
TEST_BATCHES = {"test_batch": "40351d587109b95175f43aff81a1287e"}
META = {"batches.meta": "5ff9c542aee3614f3951f8cda6e48888"}
FILES = (*TRAIN_BATCHES, *TEST_BATCHES, *META)
MAX_BATCH_BYTES = 40_000_000


def download(folder: Path) -> Path:
    """Downloads the archive of Python batches."""
    downloads.download([ARCHIVE], MIRRORS, folder)
    return folder / ARCHIVE.name


def read(path: Path, target: Target) -> Obtained:
    """Reads the archive, the folder of its batches or one above it, or a folder or zip of PNG files by class."""
    if path.is_file() and path.name.endswith((".tar.gz", ".tgz", ".tar")):
        found, surplus = read_tar(path, {f"{BATCHES}/{name}": MAX_BATCH_BYTES for name in FILES})
        _write_batches(path, {name: found[f"{BATCHES}/{name}"] for name in FILES}, target.folder)
        return Obtained(refused=[f"{name}: not one of the batches" for name in surplus])
    for folder in (path, path / BATCHES):
        if any((folder / name).is_file() for name in FILES):
            _write_batches(folder, _contents(folder), target.folder)
            return Obtained()
    return convert(open_source(path), CLASSES, SIDE, target.folder, resizes=False)


def stand_in(target: Target) -> str:
    """Draws digits in colour."""
    return save_drawn(target.folder, SIDE, in_colour=True)


def _contents(folder: Path) -> dict[str, bytes]:
    """The files' bytes, each read once: another process can't replace one after its check."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder} does not hold the original files of CIFAR-10: missing {', '.join(missing)}")
    contents = {}
    for name in FILES:
        with (folder / name).open("rb") as file:
            contents[name] = file.read(MAX_BATCH_BYTES + 1)
    return contents


def _write_batches(place: Path, contents: Mapping[str, bytes], target: Path) -> None:
    for name, md5 in {**TRAIN_BATCHES, **TEST_BATCHES, **META}.items():
        if hashlib.md5(contents[name], usedforsecurity=False).hexdigest() != md5:
            raise DataError(f"{place}: a batch is altered or incomplete: {name}'s md5 is not the original's")
    for split, names in {"train": TRAIN_BATCHES, "test": TEST_BATCHES}.items():
        batches = [_batch(place / name, contents[name]) for name in names]
        images = np.concatenate([batch.images for batch in batches])
        save_split(target, split, Arrays(images, np.concatenate([batch.labels for batch in batches])))


def _batch(path: Path, content: bytes) -> Arrays:
    try:
        batch = _unpickle(content)
        pixels = batch[b"data"].array().reshape(-1, 3, SIDE, SIDE)
        return Arrays(pixels.transpose(0, 2, 3, 1), np.array(batch[b"labels"], np.uint8))
    except (DataError, AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: not a batch of CIFAR-10 ({error})") from error


class _PickledArray:
    """Stands for a numpy array in a pickle: keeps what the pickle says of it, so that no code of numpy's reads it."""

    def __init__(self, *unused: object) -> None:
        self._state: Sequence[Any] = ()

    def __setstate__(self, state: Sequence[Any]) -> None:
        self._state = state

    def array(self) -> NDArray[np.uint8]:
        """The array, read-only.

        Raises:
            DataError: it is not an array of bytes in C's order, or its length does not fit its shape.
        """
        try:
            _, shape, dtype, is_fortran, content = self._state
            if dtype.name != b"u1" or is_fortran:
                raise DataError("an array is not one of bytes in C's order")
            return np.frombuffer(content, np.uint8).reshape(shape)
        except (AttributeError, TypeError, ValueError) as error:
            raise DataError(f"an array is damaged ({error})") from error


class _PickledType:
    """Stands for a numpy dtype in a pickle."""

    def __init__(self, name: bytes, *unused: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None:
        """Ignores the byte order: one byte has none."""


KNOWN = {
    ("numpy.core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy", "ndarray"): _PickledArray,
    ("numpy", "dtype"): _PickledType,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in KNOWN:
            raise DataError(f"it names {module}.{name}, which is neither an array nor a plain container")
        return KNOWN[module, name]


def _unpickle(content: bytes) -> Any:
    """What `content` holds: numbers, texts as bytes, lists, tuples, dicts, and arrays as `_PickledArray`.

    Raises:
        DataError: it is no pickle, or one that names anything else.
    """
    try:
        return _Unpickler(BytesIO(content), encoding="bytes").load()
    except DataError:
        raise
    except Exception as error:  # a damaged pickle may raise any exception
        raise DataError(f"not a readable pickle ({error})") from error


DATA_SET = FileSet(
    title="CIFAR-10",
    home="data/cifar-10-batches-py",  # torchvision's own place
    classes=CLASSES,
    download=download,
    read=read,
    stand_in=stand_in,
)
