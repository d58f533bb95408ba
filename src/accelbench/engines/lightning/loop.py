"""A clock in Lightning's own loop: what the Trainer calls at the boundaries of batches, and the loader that it asks.

A step reaches from the end of one batch to the end of the next, so that it holds all that the loop does for a batch.
"""

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

from torch import Tensor

from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.own.workload import counted
from accelbench.engines.pytorch.structure import copied, num_rows, tensors_in
from accelbench.errors import UserError
from accelbench.measuring.runner import ONE_RANK, Ask, Clock, Marks, Ran, RankGroup
from accelbench.schema.vocab import Phase

ENDLESS = NEVER = 2**62  # batches: Lightning predicts once over a loader; it validates after so many


class Stopped(BaseException):
    """Ends Lightning's loop when everything was measured. It runs its teardown, and no hook of an epoch's end."""


def callback(package: str, hooks: type, *args: Any, **kwargs: Any) -> Any:
    """A Callback of Lightning's `package`, which calls only its own, with these hooks."""
    return type(hooks.__name__, (hooks, importlib.import_module(package).Callback), {})(*args, **kwargs)


class Look:
    """What one step shows: its batch, as training_step or predict_step got it, and its outputs."""

    batch: Any
    outputs: Any

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class ClockHooks:
    """Runs the steps that `clock` asks for: the batches of Lightning's loop.

    `num_samples(first, last)` counts the samples of the batches from one to before the other. The other ranks run as
    many batches as the first one announces.
    """

    def __init__(
        self,
        clock: Clock[None],
        backend: Backend,
        num_samples: Callable[[int, int], int],
        ranks: RankGroup = ONE_RANK,
    ) -> None:
        self.clock, self.backend, self.num_samples, self.ranks = clock, backend, num_samples, ranks
        self.num_steps = 0  # that have ended
        self.skipped: list[int] = []  # steps whose training_step returned None, in automatic optimisation
        self.is_over = False
        self.ask = Ask()
        self.marks: Marks | None = None
        self._running = Phase.framework  # the phase that lasts
        self._within = ExitStack()

    def run(self, loop: Callable[[], object]) -> None:
        """Runs Lightning's loop until everything was measured."""
        try:
            loop()
        except BaseException as error:
            # What fails afterwards, such as a hook of the user's for exceptions, fails after the measurement.
            if not self.is_over:
                self._leave()
                self._fail(error)
        if not self.is_over:
            raise UserError("Lightning's loop ended by itself: it had no batch, or the module set trainer.should_stop")

    def _fail(self, error: BaseException) -> None:
        try:
            self.clock.throw(error)  # the clock may do without the step
        except StopIteration:
            self.is_over = True
        else:
            raise error

    # What Lightning calls.

    def on_train_start(self, trainer: Any, module: Any) -> None:
        self.trainer, self.is_manual = trainer, not module.automatic_optimization
        self._advance(None)

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        self.mark(Phase.copy_in)
        self._running = Phase.forward
        if self.ask.within is not None:
            if isinstance(self.ask.within, Look):
                self.ask.within.batch = copied(batch)  # the user's code may change its batch
            self._within.enter_context(self.ask.within)

    on_predict_start, on_predict_batch_start = on_train_start, on_train_batch_start

    def on_before_zero_grad(self, *_: Any) -> None:
        self._enter(Phase.optimizer)

    def on_before_backward(self, *_: Any) -> None:
        self._enter(Phase.backward)

    def on_after_backward(self, *_: Any) -> None:
        self._enter(self._between)

    def on_before_optimizer_step(self, *_: Any) -> None:
        self._enter(Phase.optimizer)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if not outputs and not self.is_manual:
            self.skipped.append(self.num_steps)
        self._count(outputs)

    def on_predict_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._enter(Phase.framework)
        self.backend.end_step()
        self._count(outputs)

    def _count(self, outputs: Any) -> None:
        self.num_steps += 1
        self._left -= 1
        if not self._left:
            self._end(outputs)

    # What the calls do.

    @property
    def _between(self) -> Phase:
        """What runs between a backward pass and the optimiser: in manual optimisation, training_step."""
        return Phase.forward if self.is_manual else Phase.framework

    def mark(self, phase: Phase) -> None:
        """Ends a phase, in a step whose phases are timed."""
        if self.marks is not None:
            self.marks.mark(phase)

    def _enter(self, phase: Phase) -> None:
        if self.marks is not None:
            self.marks.mark_inside(self._running)
            self._running = phase

    def _advance(self, ran: Ran | None) -> None:
        try:
            self.ask = self.clock.send(ran)  # type: ignore[arg-type]  # the first is None
        except StopIteration:
            self.is_over = True
            raise Stopped from None
        self._asked = self._left = self.ranks.begin(self.ask.num_steps)
        if not self._left:  # the first rank is done
            self.is_over = True
            raise Stopped
        if self.ask.stamps is not None:
            for optimizer in self.trainer.optimizers:
                handle = optimizer.register_step_post_hook(lambda *_: self._enter(self._between))
                self._within.callback(handle.remove)
            self.marks = Marks(self.ask.stamps, time.perf_counter)
        self._start_s = time.perf_counter()

    def _end(self, outputs: Any) -> None:
        """Ends the steps that were asked for, and begins the next."""
        launched_s = time.perf_counter()
        if self.marks is not None:
            self.marks.launched()
            ran = self.marks.end()
            self.ranks.end()
        else:
            self.backend.wait()
            self.ranks.end()
            num = self.num_samples(self.num_steps - self._asked, self.num_steps)
            ran = Ran(time.perf_counter() - self._start_s, num, launched_s - self._start_s)
        if isinstance(self.ask.within, Look):
            self.ask.within.outputs = outputs
        self._leave()
        self._advance(ran)

    def _leave(self) -> None:
        """Leaves what the step ran in."""
        self._within.close()
        self.marks = None


class TargetHooks:
    """Runs a training to a target in Lightning's loop, which validates where an interval ends."""

    def __init__(self, cell_run: Any) -> None:
        self.cell_run, self.to_target = cell_run, cell_run.to_target

    def on_train_start(self, *_: Any) -> None:
        self.cell_run.begin_loop()
        self._begin()

    def _begin(self) -> None:
        self.next_end = self.to_target.next_end()
        self.to_target.begin_training(self.cell_run)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        to_target = self.to_target
        self.cell_run.count(batch)
        to_target.num_calls += 1
        is_due = to_target.num_calls == self.next_end or to_target.ends_now()
        # The Trainer validates after each so many batches: after this one, or after none.
        trainer.val_check_batch = 1 if is_due else NEVER
        if is_due:
            self.cell_run.wait_for_ranks()
            to_target.end_training(self.cell_run)
            self.cell_run.begin_validation()

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        self.cell_run.validated()
        if self.to_target.is_over:
            trainer.should_stop = True
        else:
            self._begin()


class CountedLoader:
    """The user's loader, which checks and keeps the samples of each batch.

    That is the batch size, but for the last one of an epoch, as the user's function `count` or the first tensor tells.
    If `endless`, it begins again when it ends; else Lightning does that, as a new epoch. The setting `flag` names it.
    """

    def __init__(
        self, loader: Any, flag: str, batch_size: int, count: Callable[..., Any] | None, *, endless: bool
    ) -> None:
        self.loader, self.flag, self.batch_size, self.count, self.endless = loader, flag, batch_size, count, endless
        self.mark: Callable[[Phase], None] = lambda phase: None
        self.sizes: list[int] = []  # of all batches, in their order
        self.ends_early = False  # whether it gave fewer batches than it said it has
        self.given: list[Any] = []  # batches to return before the loader's next one
        self.last: Any = None  # the last batch, as the loader gave it
        self._batches: Iterator[Any] | None = None
        self._has_length = False
        self._begin_epoch()

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not yet set
            raise AttributeError(name)
        return getattr(self.loader, name)  # such as its sampler, which Lightning tells the epoch

    def __len__(self) -> int:
        return ENDLESS if self.endless else len(self.loader)

    def __iter__(self) -> "CountedLoader":
        # The loader begins with the first batch: Lightning also begins an iteration only to see that it can, and a
        # DataLoader would draw a random number for that.
        self._batches = None
        with suppress(TypeError, NotImplementedError):
            self._has_length = len(self) >= 0
        return self

    def __next__(self) -> Any:
        self.mark(Phase.framework)
        if self.given:
            return self.given.pop()
        batch = self._following()
        self._add(batch)
        self.last = batch
        self.mark(Phase.data_wait)
        return batch

    def _following(self) -> Any:
        if self._batches is not None:
            try:
                return next(self._batches)
            except StopIteration:
                if not self.endless:
                    self.ends_early = self._has_length  # without a length, this call leads to the last batch's step
                    raise
        self._begin_epoch()
        self._batches = iter(self.loader)
        try:
            return next(self._batches)
        except StopIteration:
            raise UserError(f"{self.flag}: its loader gave no batch in a whole epoch") from None

    def _begin_epoch(self) -> None:
        self._is_first = True
        self._smaller = 0  # the size of its last batch, if that was smaller

    def _add(self, batch: Any) -> None:
        """Notes a batch. Raises UserError: it has another size than it should have, or that can't be counted."""
        num = num_rows(batch) if self.count is None else counted("model.samples", self.count, batch)
        if num != self.batch_size or self._smaller:
            if not 0 < num < self.batch_size or self._is_first or self._smaller:
                found = f"a batch has {self._smaller or num} samples, not batch_size={self.batch_size}"
                hint = "an argument or an attribute of this name; model.samples=pkg.count may count others"
                raise UserError(f"{self.flag}: {found}, which is given as {hint}")
            self._smaller = num
        self._is_first = False
        self.sizes.append(num)


def rows_left(loaded: Any, given: Any) -> tuple[int, int] | None:
    """How many rows of how many of a loader's batch training_step or predict_step got, if hooks took some away.

    None if they did not, or if it can't be told: a tensor whose other dimensions are others too, such as one that has
    the time first, or pairs of samples, may hold all of them.
    """

    def shape(tensor: Tensor) -> tuple[int, ...]:
        """Its first dimension, and each other dimension that is longer than 1."""
        return (*tensor.shape[:1], *(length for length in tensor.shape[1:] if length > 1))

    shapes = zip(map(shape, tensors_in(loaded)), map(shape, tensors_in(given)), strict=False)
    pairs = [(before, after) for before, after in shapes if before and after]
    cropped = [(after[0], before[0]) for before, after in pairs if after[1:] == before[1:] and after[0] < before[0]]
    return cropped[0] if cropped and len(cropped) == len(pairs) else None
