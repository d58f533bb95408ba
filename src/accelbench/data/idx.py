"""Original files in MNIST's idx format: found, checked against known digests, read."""

import gzip
import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelbench.data import download as downloads
from accelbench.data.arrays import SPLITS, Arrays, save_split
from accelbench.data.obtain import FileSet, Obtained, Target
from accelbench.errors import DataError, RefusedError
from accelbench.schema.serialize import read_bytes


@dataclass(frozen=True)
class IdxFile:
    """One original file and its digests."""

    name: str  # of the unpacked file; the packed file's name ends in .gz
    shape: tuple[int, ...]  # of its array of bytes
    md5: str  # of the packed file
    sha256: str  # of the unpacked file

    @property
    def head_bytes(self) -> int:
        """The length of what is before the array: a magic number and the lengths of the axes."""
        return 4 + 4 * len(self.shape)


@dataclass(frozen=True)
class IdxSet:
    """A data set of four idx files."""

    title: str  # the name in messages, and of torchvision's folder above `raw`
    files: Mapping[str, IdxFile]  # `train_images`, `train_labels`, `test_images`, `test_labels` -> file
    mirrors: tuple[str, ...]  # addresses that a packed file's name is appended to


def like_mnist(**digests: tuple[str, str]) -> dict[str, IdxFile]:
    """The files of a set with MNIST's names and shapes: md5 of the packed and sha256 of the unpacked ones, by key."""
    files = {}
    for key, (md5, sha256) in digests.items():
        split, _, kind = key.partition("_")
        name, num = ("train", 60_000) if split == "train" else ("t10k", 10_000)
        shape = (num, 28, 28) if kind == "images" else (num,)
        files[key] = IdxFile(f"{name}-{kind}-idx{len(shape)}-ubyte", shape, md5, sha256)
    return files


def file_set(
    idx_set: IdxSet, *, title: str, home: str, classes: Sequence[str], stand_in: Callable[[Target], str]
) -> FileSet:
    """The data set of `idx_set`'s files: downloaded packed; read packed or not, from their folder or one above it.

    See `obtain.FileSet` for the other arguments.
    """

    def download(folder: Path) -> Path:
        files = [downloads.File(f"{file.name}.gz", "md5", file.md5) for file in idx_set.files.values()]
        downloads.download(files, idx_set.mirrors, folder)
        return folder

    def write(path: Path, target: Target) -> Obtained:
        for split, arrays in read(idx_set, path).items():
            save_split(target.folder, split, arrays)
        return Obtained()

    return FileSet(title=title, home=home, classes=classes, download=download, read=write, stand_in=stand_in)


def read(idx_set: IdxSet, folder: Path) -> dict[str, Arrays]:
    """Reads the set's splits from the folder of its files, or from one above it (`raw`, `<title>/raw`).

    Raises:
        DataError: the folder can't be read, or files are missing or not the original ones; the message names each.
    """
    folder = _nearest(idx_set, folder)
    found: dict[str, NDArray[np.uint8]] = {}
    problems = []
    for key, file in idx_set.files.items():
        try:
            found[key] = _array(file, folder)
        except DataError as error:
            problems.append(f"\n  {error}")
    if problems:
        raise DataError(f"{folder} does not hold the original files of {idx_set.title}:{''.join(problems)}")
    return {split: Arrays(found[f"{split}_images"], found[f"{split}_labels"]) for split in SPLITS}


def _nearest(idx_set: IdxSet, folder: Path) -> Path:
    """The folder with most of the files: `folder`, or one of those below it where torchvision keeps them."""
    try:
        os.listdir(folder)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} is not a readable folder ({getattr(error, 'strerror', error)})") from error

    def num_found(candidate: Path) -> int:
        names = [name for file in idx_set.files.values() for name in (file.name, f"{file.name}.gz")]
        return sum(os.path.exists(candidate / name) for name in names)

    return max([folder, folder / "raw", folder / idx_set.title / "raw"], key=num_found)


def _array(file: IdxFile, folder: Path) -> NDArray[np.uint8]:
    """The file's array, of the very bytes that were checked. Raises DataError if it is not the original one."""
    packed, plain = folder / f"{file.name}.gz", folder / file.name
    path = packed if os.path.lexists(packed) else plain
    try:
        content = read_bytes(path)
    except FileNotFoundError as error:
        raise DataError(f"{packed.name}: missing (and no unpacked {plain.name})") from error
    except (OSError, RefusedError) as error:
        raise DataError(f"{path.name}: not readable ({getattr(error, 'strerror', error)})") from error
    if path == packed:
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if md5 != file.md5:
            found = f"{len(content):,} bytes; md5 is {md5}, should be {file.md5}"
            raise DataError(f"{path.name}: altered or incomplete ({found})")
        content = gzip.decompress(content)
    num_bytes = file.head_bytes + math.prod(file.shape)
    if len(content) != num_bytes:
        raise DataError(f"{path.name}: incomplete or altered ({len(content):,} bytes, should be {num_bytes:,})")
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != file.sha256:
        raise DataError(f"{path.name}: altered (sha256 is {sha256}, should be {file.sha256})")
    return np.frombuffer(content, np.uint8, offset=file.head_bytes).reshape(file.shape)
