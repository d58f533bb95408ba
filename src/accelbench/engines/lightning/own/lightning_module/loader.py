"""Batches of the user's loader, taken one at a time by Lightning's own loop."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

from accelbench.engines.lightning.own.batch import counted
from accelbench.engines.lightning.structure import tensors_in
from accelbench.errors import UserError
from accelbench.schema.vocab import Phase

ENDLESS = 2**62  # batches: Lightning predicts once over a loader


def unmarked(phase: Phase) -> None:
    """Does nothing: no breakdown is being measured."""


class BatchSizes:
    """Checks and keeps the number of samples of each batch.

    Args:
        flag: the setting that names what makes the batches.
        batch_size: that each batch should have; only the last one of an epoch may have fewer.
        count: the user's function that counts the samples of a batch; None: the first dimension of its first tensor.
        takes_size: whether what makes the batches was given the size.
    """

    def __init__(self, flag: str, batch_size: int, count: Callable[..., Any] | None, *, takes_size: bool) -> None:
        self.flag, self.batch_size, self.count, self.takes_size = flag, batch_size, count, takes_size
        self.sizes: list[int] = []  # of all batches, in their order
        self.num_rows = 0  # of the first batch's first tensor; 0 if it has none
        self.short: int | None = None  # the size of the epoch's last batch, if it was smaller
        self.was_short: int | None = None
        self.is_first = True

    def begin_epoch(self) -> None:
        """The next batch is the first one of an epoch."""
        self.short, self.is_first = None, True

    def add(self, batch: Any) -> None:
        """Notes a batch.

        Raises:
            UserError: it has another size than it should have, or its samples can't be counted.
        """
        num = rows(batch, self.flag) if self.count is None else counted("model.samples", self.count, batch)
        if not self.sizes:
            self.num_rows = _first_dimension(batch)
        if num != self.batch_size or self.short is not None:
            self._check(num)
        self.is_first = False
        self.sizes.append(num)

    def _check(self, num: int) -> None:
        if self.short is None and num < self.batch_size and not self.is_first:
            self.short = self.was_short = num
            return
        wrong = num if self.short is None else self.short
        if not self.takes_size:
            raise UserError(
                f"{self.flag}: takes no batch_size: it is neither an argument of its constructor nor an attribute, and "
                f"a batch has {wrong} samples, not batch_size={self.batch_size}"
            )
        hint = "the data set may be smaller, or model.samples=pkg.count counts the samples of a batch"
        raise UserError(f"{self.flag}: a batch has {wrong} samples, not batch_size={self.batch_size}: {hint}")


def rows(batch: Any, flag: str) -> int:
    """The first dimension of the first tensor of a batch."""
    if not (num := _first_dimension(batch)):
        raise UserError(f"{flag}: a batch has no tensor whose first dimension counts its samples: use model.samples")
    return num


def _first_dimension(batch: Any) -> int:
    """That of the first tensor of a batch; 0 if there is none."""
    first = batch[0] if isinstance(batch, tuple | list) and batch else batch
    if not isinstance(first, Tensor):
        first = next(tensors_in(batch), None)
    return 0 if first is None or not first.dim() else len(first)


class SwitchingLoader:
    """The user's loader; it calls `switch` before each batch that leads to a step.

    Lightning asks a loader without a length for one batch in advance, at the begin of each epoch: that one leads to no
    step, but the call that finds no further batch does.

    A loader may say that it has more batches than it gives: then a call leads to no step either.

    Args:
        loader: the user's.
        switch: returns when the next step may run.
        sizes: checks the batches.
        endless: whether the loader begins again when it ends. If not, Lightning does that, as a new epoch.
    """

    def __init__(self, loader: Any, switch: Callable[[], None], sizes: BatchSizes, *, endless: bool) -> None:
        self.loader, self.switch, self.sizes, self.endless = loader, switch, sizes, endless
        self.mark: Callable[[Phase], None] = unmarked
        self.given: list[Any] = []  # batches that come before those of the loader
        self._batches: Iterator[Any] | None = None
        self._is_ahead = False  # whether the next batch is asked for in advance
        self._stays_ahead = False  # whether the loader has no length
        self.num_early_ends = 0  # of the loader, before the batches that it said it has
        self.ahead: Any = None  # the next step's batch, of a loader without a length

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not yet set
            raise AttributeError(name)
        return getattr(self.loader, name)  # such as its sampler, which Lightning tells the epoch

    def __len__(self) -> int:
        return ENDLESS if self.endless else len(self.loader)

    def __iter__(self) -> "SwitchingLoader":
        # The loader begins with the first batch: Lightning also begins an iteration only to see that it can, and a
        # DataLoader would draw a random number for that.
        self._batches = None
        self._is_ahead = self._stays_ahead = not self._has_length()
        return self

    def __next__(self) -> Any:
        if self._is_ahead:
            self._is_ahead = False
        else:
            self.switch()
        if self.given:
            return self.given.pop()
        try:
            batch = self._restarted() if self._batches is None else self._following(self._batches)
        except StopIteration:
            self.num_early_ends += self._has_length()  # without a length, this call leads to the last batch's step
            raise
        self.sizes.add(batch)
        if self._stays_ahead:
            self.ahead = batch
        self.mark(Phase.data_wait)
        return batch

    def _restarted(self) -> Any:
        self.sizes.begin_epoch()
        self._batches = iter(self.loader)
        return next(self._batches)

    def _following(self, batches: Iterator[Any]) -> Any:
        try:
            return next(batches)
        except StopIteration:
            if not self.endless:
                raise
        return self._restarted()

    def _has_length(self) -> bool:
        try:
            len(self)
        except (TypeError, NotImplementedError):
            return False
        return True
