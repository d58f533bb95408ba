"""Data sets of four files in MNIST's idx format: checked against known digests, read."""

import gzip
import hashlib
import math
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import Arrays, save_split
from accelbench.data.obtain import File, FileSet, Obtained, Target
from accelbench.data.stand_ins import save_drawn
from accelbench.errors import DataError, RefusedError
from accelbench.schema.serialize import read_bytes


@dataclass(frozen=True)
class IdxFile:
    """One original file and its digests."""

    name: str  # of the unpacked file; the packed file's name ends in .gz
    shape: tuple[int, ...]  # of its array of bytes
    md5: str  # of the packed file, as it is downloaded
    sha256: str  # of the unpacked file


def like_mnist(digests: Iterable[tuple[str, str]]) -> list[IdxFile]:
    """The files of a set with MNIST's names and shapes, in the order of `digests`: each one's md5 and sha256."""
    names = [(name, num, kind) for name, num in (("train", 60_000), ("t10k", 10_000)) for kind in ("images", "labels")]
    shapes = [(num, 28, 28) if kind == "images" else (num,) for _, num, kind in names]
    return [
        IdxFile(f"{name}-{kind}-idx{len(shape)}-ubyte", shape, md5, sha256)
        for (name, _, kind), shape, (md5, sha256) in zip(names, shapes, digests, strict=True)
    ]


def idx_set(
    files: Sequence[IdxFile], *, title: str, home: str, classes: Sequence[str], mirrors: Sequence[str]
) -> FileSet:
    """The data set of these four files, in the order of `like_mnist`: downloaded packed; read packed or not."""

    def read(folder: Path, target: Target) -> Obtained:
        if not folder.is_dir():
            raise DataError(f"{folder} is not a readable folder")
        arrays, problems = [], []
        for file in files:
            try:
                arrays.append(_array(file, folder))
            except DataError as error:
                problems.append(f"\n  {error}")
        if problems:
            raise DataError(f"{folder} does not hold the original files of {title}:{''.join(problems)}")
        save_split(target.folder, "train", Arrays(*arrays[:2]))
        save_split(target.folder, "test", Arrays(*arrays[2:]))
        return Obtained()

    return FileSet(
        title=title,
        home=home,
        classes=classes,
        files=[File(f"{file.name}.gz", "md5", file.md5) for file in files],
        mirrors=mirrors,
        read=read,
        stand_in=lambda target: save_drawn(target.folder, 28, in_colour=False),
        shape=files[0].shape[1:],
        num_samples=(files[0].shape[0], files[2].shape[0]),
    )


def _array(file: IdxFile, folder: Path) -> NDArray[np.uint8]:
    """The file's array, of the very bytes that were checked. Raises DataError if it is not the original one."""
    packed, plain = folder / f"{file.name}.gz", folder / file.name
    path = packed if os.path.lexists(packed) else plain
    head_bytes = 4 + 4 * len(file.shape)  # a magic number and the lengths of the axes
    num_bytes = head_bytes + math.prod(file.shape)
    try:
        content = read_bytes(path)
        if path == packed:
            content = gzip.GzipFile(fileobj=BytesIO(content)).read(num_bytes + 1)
    except FileNotFoundError as error:
        raise DataError(f"{packed.name}: missing (and no unpacked {plain.name})") from error
    except (OSError, EOFError, zlib.error, RefusedError) as error:
        raise DataError(f"{path.name}: not readable ({error})") from error
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != file.sha256:
        found = f"{len(content):,} bytes, should be {num_bytes:,}; sha256 is {sha256}, should be {file.sha256}"
        raise DataError(f"{path.name}: altered or incomplete ({found})")
    return np.frombuffer(content, np.uint8, offset=head_bytes).reshape(file.shape)
