"""Batches as NumPy arrays: gathered from the data set, or random. The samples and their order are Lightning's."""

import math
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, Protocol

import ml_dtypes  # noqa: F401  # adds bfloat16 to NumPy
import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import Arrays, load_split
from accelbench.data.order import Order, num_drawn_ahead
from accelbench.engines.formats import FORMATS
from accelbench.engines.sources import channels_last, input_of, is_random, order_of
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Mode, Pipeline

# Images (uint8; floats if random) and targets, or only images.
Batch = tuple[NDArray[Any], ...]
Part = tuple[tuple[int, ...], np.dtype[Any]]


class Feed(Protocol):
    """Batches of one epoch, or without end.

    `num_samples` is the number of samples per epoch, `num_batches` the number of batches per epoch; None without end.
    `parts` has the shape, without the axis of samples, and the dtype of each part of a batch.
    """

    @property
    def num_samples(self) -> int:
        """See the class."""

    @property
    def num_batches(self) -> int | None:
        """See the class."""

    @property
    def parts(self) -> list[Part]:
        """See the class."""

    def __iter__(self) -> Iterator[Batch]:
        """The batches."""


class ArrayFeed:
    """Batches gathered by index from arrays, which may be memory-mapped.

    Args:
        arrays: images (n, ...) and labels (n).
        order: in which samples are taken.
        target: the second part of a batch: `labels`, `images` (for the autoencoder), or None for only images.
    """

    def __init__(self, arrays: Arrays, order: Order, target: str | None) -> None:
        images = np.asarray(arrays.images)
        targets: dict[str, NDArray[Any]] = {"labels": np.asarray(arrays.labels, dtype=np.int32), "images": images}
        self.arrays = (images,) if target is None else (images, targets[target])
        self.order = order

    @property
    def num_samples(self) -> int:
        """Samples per epoch."""
        return self.order.num_samples

    @property
    def num_batches(self) -> int | None:
        """Batches per epoch; None without end."""
        return None if self.order.endless else len(self.order)

    @property
    def parts(self) -> list[Part]:
        """Shape and dtype of a batch's parts."""
        return [(array.shape[1:], array.dtype) for array in self.arrays]

    def __iter__(self) -> Iterator[Batch]:
        if self.order.shuffles:
            return (tuple(array.take(chosen, axis=0) for array in self.arrays) for chosen in self.order)
        # Not shuffled: the batches are views of the arrays, made once; nothing is copied.
        runs = [slice(int(chosen[0]), int(chosen[-1]) + 1) for chosen in self.order.one_epoch()]
        views = [tuple(array[run] for array in self.arrays) for run in runs]
        return cycle(views) if self.order.endless else iter(views)


class RandomFeed:
    """Normally distributed random images without end, drawn on the host: some batches in advance, or each when needed.

    Args:
        shape: of one image.
        num_classes: of the random labels.
        batch_size: images per batch.
        dtype: of the images, by NumPy's name.
        target: as for `ArrayFeed`.
        seed: of the generator.
        resident: whether a single batch is repeated, which stays on the device.
        fresh: whether each batch is drawn when it is needed; else a few batches are repeated.
    """

    num_batches = None

    def __init__(
        self,
        shape: tuple[int, ...],
        num_classes: int,
        batch_size: int,
        dtype: str,
        target: str | None,
        *,
        seed: int,
        resident: bool = False,
        fresh: bool = False,
    ) -> None:
        self.shape, self.num_classes, self.dtype, self.target = shape, num_classes, dtype, target
        self.fresh = fresh
        self.num_samples = batch_size
        self.generator = np.random.default_rng(seed)
        num_bytes = batch_size * math.prod(shape) * np.dtype(dtype).itemsize
        self.batches = [self._drawn() for _ in range(1 if resident or fresh else num_drawn_ahead(num_bytes))]

    @property
    def parts(self) -> list[Part]:
        """Shape and dtype of a batch's parts."""
        return [(array.shape[1:], array.dtype) for array in self.batches[0]]

    def _drawn(self) -> Batch:
        images = self.generator.standard_normal((self.num_samples, *self.shape), dtype=np.float32).astype(self.dtype)
        if self.target is None:
            return (images,)
        labels = self.generator.integers(self.num_classes, size=self.num_samples, dtype=np.int32)
        return images, labels if self.target == "labels" else images

    def __iter__(self) -> Iterator[Batch]:
        yield from self.batches
        while True:
            yield from [self._drawn()] if self.fresh else self.batches


def feed_of(cell: Cell, split: str, data_folder: Path) -> Feed:
    """The feed of one split.

    Args:
        cell: whose batches they are.
        split: `train` or `test`.
        data_folder: where the data set's arrays are.
    """
    target = None
    if cell.mode == Mode.train:
        target = "images" if cell.model.is_own("autoencoder") else "labels"
    if is_random(cell):
        shape, num_classes = input_of(cell, data_folder)
        return RandomFeed(
            channels_last(shape),
            num_classes,
            cell.batch_size,
            FORMATS[cell.precision].stored,
            target,
            seed=cell.seed,
            resident=cell.data.pipeline == Pipeline.device,
            fresh=cell.data.pipeline == Pipeline.fresh,
        )
    arrays = load_split(data_folder, split)
    num = len(arrays.labels)
    # Keras averages the replicas' gradients without weights: they must have as many samples each. Metrics and outputs
    # count single samples.
    uneven = split == "train" and num % cell.batch_size % cell.devices != 0
    return ArrayFeed(arrays, order_of(cell, split, num, last="drop" if uneven else "keep"), target)
