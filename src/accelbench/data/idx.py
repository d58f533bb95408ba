"""Data sets of four files in MNIST's idx format: checked against known digests, read."""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from accelbench.data.arrays import Arrays, save_split
from accelbench.data.obtain import File, FileSet, Obtained, Target
from accelbench.data.stand_ins import save_drawn

# Name -> shape of the array of bytes that it holds.
SHAPES: Mapping[str, tuple[int, ...]] = {
    "train-images-idx3-ubyte.gz": (60_000, 28, 28),
    "train-labels-idx1-ubyte.gz": (60_000,),
    "t10k-images-idx3-ubyte.gz": (10_000, 28, 28),
    "t10k-labels-idx1-ubyte.gz": (10_000,),
}


def like_mnist(
    md5s: Sequence[str],
    *,
    title: str,
    home: str,
    classes: Sequence[str],
    mirrors: Sequence[str],
    shapes: Mapping[str, tuple[int, ...]] = SHAPES,
) -> FileSet:
    """The data set of four files with these names and shapes, and these checksums, in the same order."""
    files = [File(name, "md5", md5) for name, md5 in zip(shapes, md5s, strict=True)]

    def read(folder: Path, target: Target) -> Obtained:
        arrays = []
        for file, shape in zip(files, shapes.values(), strict=True):
            content = gzip.decompress(file.read(folder / file.name))
            offset = 4 + 4 * len(shape)  # a magic number and the lengths of the axes
            arrays.append(np.frombuffer(content, np.uint8, offset=offset).reshape(shape))
        save_split(target.folder, "train", Arrays(*arrays[:2]))
        save_split(target.folder, "test", Arrays(*arrays[2:]))
        return Obtained()

    (num_train, *sides), _, (num_test, *_), _ = shapes.values()
    return FileSet(
        title=title,
        home=home,
        classes=classes,
        files=files,
        mirrors=mirrors,
        read=read,
        stand_in=lambda target: save_drawn(target.folder, 28, in_colour=False),
        shape=tuple(sides),
        num_samples=(num_train, num_test),
    )
