"""Data sets of four files in MNIST's idx format (http://yann.lecun.com/exdb/mnist/), checked by their digests."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import Arrays, save_split
from accelbench.data.obtain import File, FileSet, Obtained, Target
from accelbench.data.stand_ins import save_drawn

SIDE = 28
NAMES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def like_mnist(sha256s: Sequence[str], **described: Any) -> FileSet:
    """Declares a data set of four files. `sha256s`: in the order of `NAMES`. `described`: other fields of `FileSet`."""
    files = [File(name, sha256) for name, sha256 in zip(NAMES, sha256s, strict=True)]

    def read(folder: Path, target: Target) -> Obtained:
        arrays = [_array(gzip.decompress(file.read(folder / file.name))) for file in files]
        save_split(target.folder, "train", Arrays(*arrays[:2]))
        save_split(target.folder, "test", Arrays(*arrays[2:]))
        return Obtained()

    return FileSet(
        files=files,
        read=read,
        stand_in=lambda target: save_drawn(target.folder, SIDE, in_colour=False),
        shape=(SIDE, SIDE),
        **described,
    )


def _array(content: bytes) -> NDArray[np.uint8]:
    num_axes = content[3]  # the last byte of the magic number; the lengths of the axes follow it
    shape = np.frombuffer(content, ">u4", num_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * num_axes).reshape(shape)
