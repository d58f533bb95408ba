"""Feeds of batches as NumPy arrays. The batches come from a data set or are random.

The batches of a data set have the same samples in the same order as the batches of the PyTorch engine.
"""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  # adds bfloat16 to NumPy
import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import Arrays
from accelbench.data.order import VALIDATION, Order, num_drawn_ahead
from accelbench.engines.images import arrays_of, channels_last, is_random, order_of
from accelbench.measuring.checks import FORMATS
from accelbench.schema.cell import Cell, Mode, Pipeline

# (images, targets) or (images,); images are uint8, or floats if they are random.
Batch = tuple[NDArray[Any], ...]


class ArrayFeed:
    """A feed that gathers batches by index from arrays.

    `target` names the second part of a batch: "labels", or "images" for the autoencoder. If it is None, a batch has
    only one part.
    """

    def __init__(self, arrays: Arrays, order: Order, target: str | None) -> None:
        images = np.asarray(arrays.images)
        targets: dict[str, NDArray[Any]] = {
            "labels": np.asarray(arrays.labels, dtype=np.int32),
            "images": images,
        }
        self.arrays = (images,) if target is None else (images, targets[target])
        self.target, self.order, self.num_samples = target, order, order.num_samples
        self.num_batches = None if order.endless else len(order)  # batches in an epoch

    def __iter__(self) -> Iterator[Batch]:
        if self.order.shuffles:
            return (tuple(array.take(indices, axis=0) for array in self.arrays) for indices in self.order)
        # Without a shuffle, batches are views of the arrays. They are made once, and nothing is copied.
        slices = [slice(int(indices[0]), int(indices[-1]) + 1) for indices in self.order.one_epoch()]
        views = [tuple(array[rows] for array in self.arrays) for rows in slices]
        return cycle(views) if self.order.endless else iter(views)


class RandomFeed:
    """An endless feed of random images. The cell's seed determines them.

    By default, a few batches are drawn in advance and repeated. With `data.pipeline=fresh`, each step gets a new batch.
    """

    num_batches = None

    def __init__(self, cell: Cell, target: str | None) -> None:
        self.shape = channels_last(cell.model.input_shape)
        self.num_classes = cell.model.num_classes
        self.dtype, self.target, self.size = FORMATS[cell.precision].stored, target, cell.batch_size
        self.generator = np.random.default_rng(cell.seed)
        self.fresh = cell.data.pipeline == Pipeline.fresh
        self.batches = [self._drawn()]
        if cell.data.pipeline == Pipeline.host:
            num = num_drawn_ahead(self.batches[0][0].nbytes)
            self.batches += [self._drawn() for _ in range(num - 1)]
        self.num_samples = self.size

    def _drawn(self) -> Batch:
        images = self.generator.standard_normal((self.size, *self.shape), dtype=np.float32).astype(self.dtype)
        if self.target is None:
            return (images,)
        labels = self.generator.integers(self.num_classes, size=self.size, dtype=np.int32)
        return images, labels if self.target == "labels" else images

    def __iter__(self) -> Iterator[Batch]:
        yield from self.batches
        while True:
            yield from [self._drawn()] if self.fresh else self.batches


Feed = ArrayFeed | RandomFeed


def feed_of(cell: Cell, split: str, data_folder: Path) -> Feed:
    """Makes the feed of a split: "train", "test" or `VALIDATION`."""
    target = None
    if cell.mode == Mode.train:
        target = "images" if cell.model.is_own("autoencoder") else "labels"
    if is_random(cell):
        return RandomFeed(cell, target)
    arrays = arrays_of(cell, split, data_folder)
    order = order_of(cell, split, len(arrays.labels), last="keep")
    if split == VALIDATION:  # copies only this part, because TensorFlow copies all arrays of a feed
        arrays = Arrays(arrays.images[order.among], arrays.labels[order.among])
        order.among = None
    # In training, all replicas need the same number of samples, because Keras averages their gradients without weights.
    # Metrics and outputs count single samples, so other splits keep a short last batch.
    if split == "train" and order.num % cell.batch_size % cell.devices:
        order = order_of(cell, split, len(arrays.labels), last="drop")
    return ArrayFeed(arrays, order, target)
