"""Decides which samples each batch has. The samples are the same for every engine, device and pipeline."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import UnsupportedError

Indices = NDArray[np.int64]
Last = Literal["keep", "drop", "pad"]
VALIDATION = "validation"  # the split held out of a training set, for a training to a target
SPLIT_SEED = 40  # random seed of this split, for every seed of a cell

# Random batches that are drawn ahead and used in turn. With several of them, the next one is not in the caches.
NUM_RANDOM_BATCHES = 8
MAX_RANDOM_BYTES = 512 << 20


def num_drawn_ahead(num_bytes: int) -> int:
    """Returns how many random batches of `num_bytes` each are drawn ahead."""
    return max(2, min(NUM_RANDOM_BATCHES, MAX_RANDOM_BYTES // num_bytes))


def parts_of(num: int, share: float) -> tuple[Indices, Indices]:
    """Divides the indices of `num` samples into those to train on and those to evaluate on. Both parts are ascending.

    The parts are the same for all seeds and settings, so that all of them are evaluated on the same samples.

    Args:
        share: the share of the samples to evaluate on.

    Raises UnsupportedError: a part is empty.
    """
    num_held_out = round(share * num)
    if not 0 < num_held_out < num:
        raise UnsupportedError(
            f"target.validation={share:g}: holds out {num_held_out} of {num} training samples: "
            f"use {'a larger share' if num_held_out == 0 else 'a smaller share'}"
        )
    order = np.random.default_rng(SPLIT_SEED).permutation(num)
    return np.sort(order[num_held_out:]), np.sort(order[:num_held_out])


class Order:
    """Yields batches, as indices of samples.

    An iterator makes one pass over the data. If `endless` is true, it makes one pass after another. If `shuffle` is
    true, each pass has a new order, which depends only on `seed` and on the number of the pass.

    Args:
        num: number of samples.
        last: what to do with the last batch of a pass if it is short: keep it, drop it or, for devices that compile
            each shape separately, keep it for `feed.py` to pad with black images labelled -1. With `endless`, it is
            always dropped.
        part: (index, number). Every batch is divided into `number` equal parts, and only the part `index` is yielded. A
            short batch is dropped if it can't be divided by `number`.
        among: indices of `num` samples in a larger data set. If they are given, the batches are made of these.

    Raises UnsupportedError: the data set has fewer samples than a batch.
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
        among: Indices | None = None,
    ) -> None:
        self.num = num
        self.among = among
        self.batch_size = batch_size
        self.shuffles = shuffle
        self.endless = endless
        self.index, self.num_parts = part
        self.part_size = batch_size // self.num_parts  # samples of this part of a full batch
        uneven = last == "keep" and num % batch_size % self.num_parts
        self.last = "drop" if endless or uneven else last
        self.generator = np.random.default_rng(seed)
        if self.last == "drop" and batch_size > num:
            raise UnsupportedError(f"batch_size={batch_size} exceeds the data set's {num} samples")

    def __len__(self) -> int:
        if self.endless:
            raise TypeError("an endless order has no length")
        full, rest = divmod(self.num, self.batch_size)
        return full + (rest > 0 and self.last != "drop")

    @property
    def num_samples(self) -> int:
        """The number of samples in one pass, of all parts, without padding. If `endless` is true, it is `num`."""
        return self.num - self.num % self.batch_size if self.last == "drop" and not self.endless else self.num

    def __iter__(self) -> Iterator[Indices]:
        yield from self.one_epoch()
        while self.endless:
            yield from self.one_epoch()

    def epochs(self) -> Iterator[Indices]:
        """Yields the indices of each pass as one array. Iterating over the object yields them in batches."""
        yield np.concatenate(list(self.one_epoch()))
        while self.endless:
            yield np.concatenate(list(self.one_epoch()))

    def one_epoch(self) -> Iterator[Indices]:
        """The batches of one pass."""
        order = self.generator.permutation(self.num) if self.shuffles else np.arange(self.num)
        order = order if self.among is None else self.among[order]
        end = self.num - (self.batch_size - 1 if self.last == "drop" else 0)
        for start in range(0, end, self.batch_size):
            batch = order[start : start + self.batch_size]
            # If a batch is padded later, its last parts may be short or empty.
            size = self.part_size if self.last == "pad" else len(batch) // self.num_parts
            yield batch[self.index * size : (self.index + 1) * size]
