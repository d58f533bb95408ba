"""Original files in MNIST's idx format: found, checked against known digests, read by torchvision."""

import gzip
import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from accelbench.data import download as downloads
from accelbench.data.arrays import SPLITS, Arrays, save_split
from accelbench.data.obtain import FileSet, Target, Verified
from accelbench.errors import DataError, RefusedError
from accelbench.schema.serialize import read_bytes


@dataclass(frozen=True)
class IdxFile:
    """One original file and its digests.

    Attributes:
        name: of the unpacked file; the packed file's name ends in .gz.
        shape: of its array.
        md5: of the packed file.
        sha256: of the unpacked file.
    """

    name: str
    shape: tuple[int, ...]
    md5: str
    sha256: str

    @property
    def num_bytes(self) -> int:
        """The unpacked file's size: a magic number, the lengths of the axes, a byte per element."""
        return 4 + 4 * len(self.shape) + math.prod(self.shape)


@dataclass(frozen=True)
class IdxSet:
    """A data set of four idx files.

    Attributes:
        title: the name in messages, and of torchvision's folder above `raw`.
        files: `train_images`, `train_labels`, `test_images`, `test_labels` -> file.
        mirrors: addresses that a packed file's name is appended to.
    """

    title: str
    files: Mapping[str, IdxFile]
    mirrors: tuple[str, ...]


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

    def write(path: Path, target: Target) -> Verified:
        for split, arrays in read(idx_set, path).items():
            save_split(target.folder, split, arrays)
        return Verified()

    return FileSet(title=title, home=home, classes=classes, download=download, read=write, stand_in=stand_in)


def read(idx_set: IdxSet, folder: Path) -> dict[str, Arrays]:
    """Reads the set's splits from the folder of its files, or from one above it (`raw`, `<title>/raw`).

    Raises:
        DataError: the folder can't be read, or files are missing or not the original ones; the message names each.
    """
    from torchvision.datasets.mnist import (
        read_image_file,
        read_label_file,
    )  # takes a second, which listing sources does not need

    folder = _nearest(idx_set, folder)
    with TemporaryDirectory() as temporary:
        unpacked = Path(temporary)
        problems = [_unpack(file, folder, unpacked) for file in idx_set.files.values()]
        if any(problems):
            lines = "".join(f"\n  {problem}" for problem in problems if problem)
            raise DataError(f"{folder} does not hold the original files of {idx_set.title}:{lines}")
        path = {key: os.fspath(unpacked / file.name) for key, file in idx_set.files.items()}
        return {
            split: Arrays(
                images=read_image_file(path[f"{split}_images"]).numpy(),
                labels=read_label_file(path[f"{split}_labels"]).numpy().astype(np.uint8),
            )
            for split in SPLITS
        }


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


def _unpack(file: IdxFile, folder: Path, target: Path) -> str | None:
    """Puts the unpacked file into `target`; returns what is wrong if it is not the original one."""
    packed, plain = folder / f"{file.name}.gz", folder / file.name
    path = packed if os.path.lexists(packed) else plain
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        return f"{packed.name}: missing (and no unpacked {plain.name})"
    except (OSError, RefusedError) as error:
        return f"{path.name}: not readable ({getattr(error, 'strerror', error)})"
    if path == packed:
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if md5 != file.md5:
            return f"{path.name}: altered or incomplete ({len(content):,} bytes; md5 is {md5}, should be {file.md5})"
        content = gzip.decompress(content)
    if len(content) != file.num_bytes:
        return f"{path.name}: incomplete or altered ({len(content):,} bytes, should be {file.num_bytes:,})"
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != file.sha256:
        return f"{path.name}: altered (sha256 is {sha256}, should be {file.sha256})"
    (target / file.name).write_bytes(content)
    return None
