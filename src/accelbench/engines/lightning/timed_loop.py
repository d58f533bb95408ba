"""Callbacks that measure a cell inside the loop of Lightning's Trainer.

A step lasts from the end of one batch to the end of the next batch. So it includes all work of the loop for a batch.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

from accelbench.engines.pytorch.structure import copied
from accelbench.errors import UserError
from accelbench.measuring.runner import Ask, Marks, Ran
from accelbench.schema.vocab import Phase

NEVER = 2**62  # a number of batches that no loop reaches
ENDED = "Lightning's loop ended too early: it got no batch (lower batch_size), or the module set trainer.should_stop"
KEEPS_BATCH = nullcontext()  # if a step runs in this context, a copy of its batch is kept


class Stopped(BaseException):
    """Ends Lightning's loop after the measurement. Lightning then runs its teardown, but not the epoch-end hooks."""


class ClockHooks:
    """Runs and times steps. A step is one batch of Lightning's loop.

    `cell_run.conduct()` returns the clock, a generator. The clock yields how many steps to run, and gets their times.
    The first rank (process) tells the other ranks how many batches to run.
    """

    def __init__(self, cell_run: Any) -> None:
        self.cell_run = cell_run
        self.clock = cell_run.conduct()
        self.backend, self.ranks = cell_run.backend, cell_run.ranks
        self.num_steps = 0  # steps that have ended
        self.num_skipped = 0  # steps whose training_step returned None, in automatic optimisation
        self.outputs: Any = None  # outputs of the last step
        self.batch: Any = None  # batch of the last step that ran in `KEEPS_BATCH`
        self.ask = Ask()
        self.marks: Marks | None = None
        self.is_over = False
        self._running = Phase.framework  # the present phase
        self._within = ExitStack()

    def drive(self, loop: Callable[[], object]) -> None:
        """Runs Lightning's loop until everything was measured."""
        try:
            loop()
        except BaseException as error:
            # After the end of the clock, the measurement is complete. Later errors, as in a user's hook, are ignored.
            if not self.is_over:
                self._leave()
                try:
                    self.clock.throw(error)  # the clock may handle the error: some steps are optional
                except StopIteration:
                    self.is_over = True
        if not self.is_over:
            raise UserError(ENDED)

    # Hooks that Lightning calls.

    def on_train_start(self, trainer: Any, module: Any) -> None:
        self.trainer = trainer
        self.is_manual = not module.automatic_optimization
        self._advance(None)

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        self.mark(Phase.copy_in)
        self._running = Phase.forward
        within = self.ask.within
        if within is not None:
            if within is KEEPS_BATCH:
                self.batch = copied(batch)  # the user's code may change its batch
            self._within.enter_context(within)

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
            self.num_skipped += 1
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

    # Helpers of the hooks.

    @property
    def _between(self) -> Phase:
        """The phase after a backward pass or an optimiser step. With manual optimisation, `training_step` goes on."""
        return Phase.forward if self.is_manual else Phase.framework

    def mark(self, phase: Phase) -> None:
        """Records the end of a phase. Does nothing if the phases of this step are not timed."""
        if self.marks is not None:
            self.marks.mark(phase)

    def _enter(self, phase: Phase) -> None:
        if self.marks is not None:
            self.marks.mark_inside(self._running)
            self._running = phase

    def _advance(self, ran: Ran | None) -> None:
        """Gives the clock the measured times `ran`, and prepares the steps that the clock asks for next.

        Raises Stopped at the end of the measurement.
        """
        try:
            self.ask = self.clock.send(ran)
        except StopIteration:
            self.is_over = True
            raise Stopped from None
        self._asked = self._left = self.ranks.begin(self.ask.num_steps)
        if not self._left:  # the first rank has ended the measurement
            self.is_over = True
            raise Stopped
        if self.ask.stamps is not None:
            for optimizer in self.trainer.optimizers:
                handle = optimizer.register_step_post_hook(lambda *_: self._enter(self._between))
                self._within.callback(handle.remove)
            self.marks = Marks(self.ask.stamps, time.perf_counter)
        self._start_s = time.perf_counter()

    def _end(self, outputs: Any) -> None:
        """Sends the times of the finished steps to the clock, and begins the next steps."""
        launched_s = time.perf_counter()
        if self.marks is not None:
            self.marks.launched()
            ran = self.marks.end()
            self.ranks.end()
        else:
            self.backend.wait()
            self.ranks.end()
            seconds = time.perf_counter() - self._start_s
            num_samples = self.cell_run.samples_between(self.num_steps - self._asked, self.num_steps)
            ran = Ran(seconds, num_samples, launched_s - self._start_s)
        self.outputs = outputs
        self._leave()
        self._advance(ran)

    def _leave(self) -> None:
        """Leaves the contexts of the step."""
        self._within.close()
        self.marks = None


class IntervalHooks:
    """Divides the training in Lightning's loop into intervals. An evaluation follows each interval."""

    is_over = False

    def __init__(self, cell_run: Any) -> None:
        self.cell_run = cell_run

    def drive(self, loop: Callable[[], object]) -> None:
        """Runs Lightning's loop until its end."""
        loop()
        if not self.is_over:
            raise UserError(ENDED)

    def begin(self) -> None:
        """Begins an interval."""
        raise NotImplementedError

    def ends(self) -> bool:
        """Is true if the interval ends after the present batch."""
        raise NotImplementedError

    def end(self) -> None:
        """Ends an interval. An evaluation follows."""
        raise NotImplementedError

    def evaluated(self) -> None:
        """Records the evaluation. Sets `is_over` after the last one."""
        raise NotImplementedError

    def mark(self, phase: Phase) -> None:
        """Does nothing: the phases of these steps are not timed."""

    def on_train_start(self, *_: Any) -> None:
        self.cell_run.begin_loop()
        self.begin()

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        ends = self.ends()
        # The Trainer validates after every `val_check_batch` batches: 1 makes it validate now.
        trainer.val_check_batch = 1 if ends else NEVER
        if ends:
            self.cell_run.wait_for_ranks()
            self.end()

    def on_validation_end(self, trainer: Any, *_: Any) -> None:
        self.evaluated()
        if self.is_over:
            trainer.should_stop = True
        else:
            self.begin()


class GoalHooks(IntervalHooks):
    """Trains to a target in Lightning's loop; see `engines.goal`."""

    def begin(self) -> None:
        self.goal = self.cell_run.goal
        self.next_end = self.goal.next_end()
        self.goal.begin_training(self.cell_run)

    def ends(self) -> bool:
        self.goal.num_calls += 1
        return bool(self.goal.num_calls == self.next_end or self.goal.ends_now())

    def end(self) -> None:
        self.goal.end_training(self.cell_run)
        self.cell_run.begin_validation()

    def evaluated(self) -> None:
        self.cell_run.validated()
        self.is_over = self.goal.is_over
