"""Which samples make up each batch: the same for every engine and device, and however batches are made."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import UnsupportedError

Indices = NDArray[np.int64]
Last = Literal["keep", "drop", "pad"]

# Random batches that are drawn ahead and taken in turn, so that the caches don't hold the next one.
NUM_RANDOM_BATCHES = 8
MAX_RANDOM_BYTES = 512 << 20


def num_drawn_ahead(num_bytes: int) -> int:
    """How many random batches of `num_bytes` each take turns."""
    return max(2, min(NUM_RANDOM_BATCHES, MAX_RANDOM_BYTES // num_bytes))


class Order:
    """Batches as indices of samples.

    Iterating is one pass, or, if `endless`, as many as are taken. Every pass of a shuffled order is new, drawn from
    a generator that depends on the seed alone.

    Args:
        num: samples in the data set.
        batch_size: samples per batch.
        shuffle: whether each pass has a new random order.
        seed: of that order.
        endless: passes follow each other, each without its short last batch.
        last: what a pass does with its short last batch: `keep`, `drop` or `pad` (with black images labelled
            -1, for devices that compile each shape anew).
        part: which share of every batch is given, and of how many: the shares of all are the whole batch. Where a
            short last batch would be kept and can't be divided evenly, it is dropped.

    Raises:
        UnsupportedError: not one batch can be filled.
    """

    def __init__(
        self,
        num: int,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        endless: bool = False,
        last: Last,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.num = num
        self.batch_size = batch_size
        self.endless = endless
        self.index, self.num_parts = part
        uneven = last == "keep" and num % batch_size % self.num_parts
        self.last = "drop" if endless or uneven else last
        self.generator = np.random.default_rng(seed) if shuffle else None
        if self.last == "drop" and batch_size > num:
            raise UnsupportedError(f"batch_size={batch_size} exceeds the data set's {num} samples")

    def __len__(self) -> int:
        if self.endless:
            raise TypeError("an endless order has no length")
        full, rest = divmod(self.num, self.batch_size)
        return full + (rest > 0 and self.last != "drop")

    @property
    def part_size(self) -> int:
        """Samples that this share has of a full batch."""
        return self.batch_size // self.num_parts

    @property
    def num_samples(self) -> int:
        """Samples in one pass of all shares, padding not counted; of an endless order, in the data set."""
        return self.num - self.num % self.batch_size if self.last == "drop" and not self.endless else self.num

    @property
    def shuffles(self) -> bool:
        """Whether each pass has a new order."""
        return self.generator is not None

    def __iter__(self) -> Iterator[Indices]:
        yield from self.one_pass()
        while self.endless:
            yield from self.one_pass()

    def passes(self) -> Iterator[Indices]:
        """The same as a whole pass at a time, its batches one after another."""
        yield np.concatenate(list(self.one_pass()))
        while self.endless:
            yield np.concatenate(list(self.one_pass()))

    def one_pass(self) -> Iterator[Indices]:
        """The batches of one pass."""
        order = np.arange(self.num) if self.generator is None else self.generator.permutation(self.num)
        end = self.num - (self.batch_size - 1 if self.last == "drop" else 0)
        for start in range(0, end, self.batch_size):
            batch = order[start : start + self.batch_size]
            # Of a batch that is padded, the last shares may be short, or empty.
            size = self.part_size if self.last == "pad" else len(batch) // self.num_parts
            yield batch[self.index * size : (self.index + 1) * size]
