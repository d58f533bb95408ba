"""The arrays of a prepared data set, which every engine reads."""

import math
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from accelbench.errors import DataError, UnsupportedError
from accelbench.project import project_folder

SPLITS = ("train", "test")
KINDS = ("images", "labels", "encoded", "ends")  # of a split's arrays


@dataclass(frozen=True)
class Arrays:
    """One split."""

    images: NDArray[np.uint8]  # uint8, N x height x width, or N x height x width x 3 for colour
    labels: NDArray[np.uint8]  # uint8, N: the class's index


@dataclass(frozen=True)
class Encoded:
    """The encoded picture files of one split."""

    content: NDArray[np.uint8]  # uint8, the bytes of all files, concatenated
    ends: NDArray[np.int64]  # int64, N: where each file ends in `content`
    labels: NDArray[np.uint8]  # uint8, N: the class's index

    def __getitem__(self, index: int) -> bytes:
        start = int(self.ends[index - 1]) if index else 0
        return self.content[start : int(self.ends[index])].tobytes()


class RowFile:
    """A uint8 .npy file that gets its rows, each of `shape`, one after another, without holding the array in memory."""

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.num_bytes = 0
        self._file = path.open("wb")
        self._file.write(self._head(0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._file:
            if kind is None:
                self._file.seek(0)
                self._file.write(self._head(self.num_bytes // math.prod(self.shape)))

    def add(self, content: bytes) -> None:
        """Adds the bytes of whole rows."""
        self._file.write(content)
        self.num_bytes += len(content)

    def _head(self, num_rows: int) -> bytes:
        head = BytesIO()  # numpy pads it for the first axis to grow: its length does not depend on `num_rows`
        npy.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (num_rows, *self.shape)})
        return head.getvalue()


def label_type(num_classes: int) -> type[np.unsignedinteger[Any] | np.signedinteger[Any]]:
    """What labels are kept as: uint8, or int64 for more classes than that has."""
    return np.uint8 if num_classes <= 256 else np.int64


def array_path(folder: Path, split: str, kind: str) -> Path:
    """The file of a split's array of one of `KINDS`; for `encoded` and `ends` see `Encoded`."""
    return folder / f"{split}_{kind}.npy"


def how_to_prepare(folder: Path) -> str:
    """The end of a message: how to prepare the data set of `folder`."""
    removed = f"remove {folder}: the next run prepares it again"
    return removed if project_folder() is None else f"prepare it with: dvc repro data@{folder.name}"


def load_split(folder: Path, split: str) -> Arrays:
    """Maps a split into memory, copy-on-write: changes do not reach the file. Raises DataError."""
    return Arrays(images=_map(array_path(folder, split, "images")), labels=_map(array_path(folder, split, "labels")))


def load_encoded(folder: Path, split: str) -> Encoded:
    """Maps the encoded picture files of a split into memory. Raises UnsupportedError: the set does not keep them."""
    if not array_path(folder, split, "encoded").exists():
        raise UnsupportedError(f"data.pipeline=jpeg: {folder.name} keeps decoded arrays only; use data.pipeline=array")
    content, ends, labels = (_map(array_path(folder, split, kind)) for kind in ("encoded", "ends", "labels"))
    return Encoded(content, ends.astype(np.int64), labels)


def save_split(folder: Path, split: str, arrays: Arrays) -> None:
    """Writes a split that is in memory."""
    np.save(array_path(folder, split, "images"), arrays.images)
    np.save(array_path(folder, split, "labels"), arrays.labels)


def _map(path: Path) -> NDArray[np.uint8]:
    try:
        array: NDArray[np.uint8] = np.load(path, mmap_mode="c")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: not readable ({error}); {how_to_prepare(path.parent)}") from error
    return array
