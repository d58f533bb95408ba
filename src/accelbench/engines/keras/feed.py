"""Batches as NumPy arrays: gathered from the data set, or random. The same samples in the same order as Lightning's."""

import math
from collections.abc import Iterator
from itertools import cycle
from typing import Any, Protocol

import ml_dtypes  # noqa: F401  # NumPy learns bfloat16 from it
import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import Arrays
from accelbench.data.order import Order, num_drawn_ahead

# Images (uint8, or floats where they are random) and what they are trained for, or images alone.
Batch = tuple[NDArray[Any], ...]
Part = tuple[tuple[int, ...], np.dtype[Any]]


class Feed(Protocol):
    """Batches, a pass or without end.

    `num_samples` is the samples of a pass, `num_batches` how many batches they make; None without end. `parts` are the
    shape, without the samples' axis, and the dtype of each part of a batch.
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
    """Batches gathered by index from arrays that stay as they are, mapped or in memory.

    Args:
        arrays: images (n, ...) and labels (n).
        order: of the samples.
        target: what a batch's second part is: the `labels`, the `images` themselves, or None for images alone.
    """

    def __init__(self, arrays: Arrays, order: Order, target: str | None) -> None:
        images = np.asarray(arrays.images)
        targets: dict[str, NDArray[Any]] = {"labels": np.asarray(arrays.labels, dtype=np.int32), "images": images}
        self.arrays = (images,) if target is None else (images, targets[target])
        self.order = order

    @property
    def num_samples(self) -> int:
        """Samples in one pass."""
        return self.order.num_samples

    @property
    def num_batches(self) -> int | None:
        """Batches in one pass; None without end."""
        return None if self.order.endless else len(self.order)

    @property
    def parts(self) -> list[Part]:
        """Shape and dtype of a batch's parts."""
        return [(array.shape[1:], array.dtype) for array in self.arrays]

    def __iter__(self) -> Iterator[Batch]:
        if self.order.shuffles:
            return (tuple(array.take(chosen, axis=0) for array in self.arrays) for chosen in self.order)
        # In the arrays' own order a batch is views, made once: nothing is copied.
        runs = [slice(int(chosen[0]), int(chosen[-1]) + 1) for chosen in self.order.one_pass()]
        views = [tuple(array[run] for array in self.arrays) for run in runs]
        return cycle(views) if self.order.endless else iter(views)


class RandomFeed:
    """Normal random images without end, drawn on the host: ahead, and taken in turn, or anew for each batch.

    Args:
        shape: of one image.
        num_classes: of the random labels.
        batch_size: images per batch.
        dtype: of the images, by NumPy's name.
        target: as for `ArrayFeed`.
        seed: of all of them.
        resident: whether there is one batch alone, to be taken again and again.
        fresh: whether each batch is new.
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
