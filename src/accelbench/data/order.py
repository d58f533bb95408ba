"""The samples of each batch: the same for every engine, device and pipeline."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import UnsupportedError

Indices = NDArray[np.int64]
Last = Literal["keep", "drop", "pad"]
VALIDATION = "validation"  # the split of what is held out of a training set, to train to a target
SPLIT_SEED = 40  # of that, whatever the seed of a cell

# Random batches that are drawn ahead and used in turn, so that the next one is not in the caches.
NUM_RANDOM_BATCHES = 8
MAX_RANDOM_BYTES = 512 << 20


def num_drawn_ahead(num_bytes: int) -> int:
    """How many random batches of `num_bytes` each are drawn ahead."""
    return max(2, min(NUM_RANDOM_BATCHES, MAX_RANDOM_BYTES // num_bytes))


def parts_of(num: int, share: float) -> tuple[Indices, Indices]:
    """The samples of a training set of `num` to train on, and those to evaluate on, ascending, without overlap.

    They are the same for all seeds and settings: otherwise two settings would aim at different targets.

    Raises an UnsupportedError if one of the two is empty.
    """
    num_held_out = round(share * num)
    if not 0 < num_held_out < num:
        raise UnsupportedError(
            f"target.validation={share:g}: takes {num_held_out} of {num} training samples: "
            f"use {'more' if num_held_out == 0 else 'less'}"
        )
    order = np.random.default_rng(SPLIT_SEED).permutation(num)
    return np.sort(order[num_held_out:]), np.sort(order[:num_held_out])


class Order:
    """Batches as indices of samples.

    An iterator makes one pass over the data, or, if `endless`, one after another. If shuffled, each pass has a new
    order, from a generator that depends only on the seed.

    `num` is the number of samples; of `endless` passes none has a short last batch. `last` says what a pass does with
    one: `pad` (with black images labelled -1) is for devices that compile each shape anew. `part`, (index, number), is
    which of how many equal parts of every batch to give: a short one that can't be divided evenly is dropped. With
    `among`, the samples are those `num` ones of a larger data set.

    Raises UnsupportedError: the data set does not fill a single batch.
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
        self.part_size = batch_size // self.num_parts  # samples of a full batch that belong to this part
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
        """Samples in one pass, over all parts, without padding; of an endless order, in the data set."""
        return self.num - self.num % self.batch_size if self.last == "drop" and not self.endless else self.num

    def __iter__(self) -> Iterator[Indices]:
        yield from self.one_epoch()
        while self.endless:
            yield from self.one_epoch()

    def epochs(self) -> Iterator[Indices]:
        """The same indices as iterating gives, one array per pass."""
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
            # The last parts of a batch that is padded later may be short or empty.
            size = self.part_size if self.last == "pad" else len(batch) // self.num_parts
            yield batch[self.index * size : (self.index + 1) * size]
