"""Training to a target (`protocol=target`), for every engine.

This module decides when to evaluate and when to stop, and keeps the log of times. Evaluations use the validation part
of the training set. docs/time-to-accuracy.md describes the protocol.
"""

import math
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import TYPE_CHECKING, Any, TypeVar

from accelbench.data.order import Order
from accelbench.devices.proc import started_boot_s
from accelbench.measuring import clock
from accelbench.measuring.clock import Step, Timing
from accelbench.schema.cell import ACCURACY, LOSS, Cell, Definition, Device, Span, Stop, Target
from accelbench.schema.measurement import Evaluated, Evaluation, Logged, TargetTraining
from accelbench.schema.serialize import MAX_NUMBER

if TYPE_CHECKING:
    from accelbench.engines.cell_run import CellRun

Item = TypeVar("Item")


def ends_of(target: Target, epochs: int, per_epoch: int, in_call: int = 1) -> Iterator[int]:
    """Yields when to evaluate: after how many calls of the engine's step since the start of training.

    An epoch has `per_epoch` calls. A call runs `in_call` training steps.
    """
    most = epochs * per_epoch
    every = target.every * per_epoch
    if target.every_steps is not None:
        every = target.every_steps / in_call
    if target.definition == Definition.passage:
        for index in count(1):
            end = round(index * max(1.0, every))
            if end >= most:
                break
            yield end
    yield most


class GoalRun:
    """One training to the target of `cell`.

    The training ends at the latest when `time.perf_counter()` is `until_s`. The log of times begins when the process
    starts.
    """

    def __init__(self, cell: Cell, until_s: float = math.inf) -> None:
        self.cell, self.target, self._until_s = cell, cell.target, until_s
        self._started_s = started_boot_s()
        self._span, self._began_s = Span.start, 0.0
        is_deterministic = cell.device == Device.cpu and not cell.own_code
        # the entry of the record; the sweep sets `planned_in`
        self.training = TargetTraining(num_validation=None, deterministic=is_deterministic, evaluations=[])
        self.num_calls = 0  # calls of the engine's step
        self.evaluation_began_s = 0.0  # when the last evaluation began
        self.evaluation: Evaluation | None = None  # on the test set
        # (step, number of samples) -> the mean of the user's metric over these samples
        self.own_metric: Callable[[Any, int], float] | None = None
        self.is_over = self.is_cut = False  # cut: the time limit ended the training before its last epoch
        self.begin(Span.data)

    @property
    def now_s(self) -> float:
        """Seconds since the process started."""
        return clock.boot_s() - self._started_s

    def begin(self, span: Span) -> None:
        """Ends the present span of the log and begins `span` at the same moment, so that the log has no gaps."""
        now_s = self.now_s
        self.training.log.append(Logged(span=self._span, began_s=self._began_s, ended_s=now_s))
        self._span, self._began_s = span, now_s

    def end(self, timing: Timing) -> None:
        """Ends the last span of the log. Records in `timing` when training started and when the log ended.

        Also records whether time ran out before the target was reached.
        """
        self.begin(self._span)
        began_s = next(logged.began_s for logged in self.training.log if logged.span == Span.train)
        timing.steady_boot_s = self._started_s + began_s, self._started_s + self.training.log[-1].ended_s
        timing.stop = Stop.timeout if self.is_cut and self.training.hit is None else None

    def plan(self, order: Order, in_call: int = 1) -> None:
        """Sets the order of the batches of an epoch. One call of the engine's step runs `in_call` batches."""
        self.order, self.in_call = order, in_call
        self.plan_calls(math.ceil(len(order) / in_call), in_call)

    def plan_calls(self, calls_of_epoch: int, in_call: int = 1) -> None:
        """Sets the number of calls of the engine's step in an epoch."""
        self.calls_of_epoch = calls_of_epoch
        self._ends = ends_of(self.target, self.cell.epochs, calls_of_epoch, in_call)

    def interval_of(self, batches: Iterator[Item]) -> Iterator[Item]:
        """Yields batches until the next evaluation. `batches` iterates over the batches of all epochs."""
        for batch in islice(batches, self.next_end() - self.num_calls):
            yield batch
            if self.ends_now():
                return

    def next_end(self) -> int:
        """Returns after how many calls of the engine's step since the start of training the next evaluation is due."""
        return next(self._ends)

    def ends_now(self) -> bool:
        """Counts a step that has ended. Returns whether the training must end now, because there is no more time."""
        self.num_calls += 1
        return self.cell.devices == 1 and not self.is_whole and self.is_late()

    @property
    def is_whole(self) -> bool:
        """Is true if all epochs were trained."""
        return self.num_calls == self.cell.epochs * self.calls_of_epoch

    def is_late(self, of_ranks: Callable[[bool], bool] = bool) -> bool:
        """Is true if there is no time for a further step.

        If several processes (ranks) run the cell, `of_ranks` returns true if its argument is true in any of them.
        """
        self.is_cut |= of_ranks(time.perf_counter() > self._until_s)
        return self.is_cut

    def train(self, run: "CellRun", step: Step) -> None:
        """Trains until the next evaluation is due. Then `step.fetch` raises StopIteration."""
        self.begin_training(run)
        clock.time_epoch(step, run.wait_for_ranks)
        self.end_training(run)

    def begin_training(self, run: "CellRun") -> None:
        """Begins an interval of training."""
        run.ranks.end()
        self.begin(Span.train)
        _, self._compiled_s = run.backend.compiles()

    def end_training(self, run: "CellRun") -> None:
        """Ends an interval of training and begins an evaluation. The caller must first wait for the devices."""
        self.training.compile_s += run.backend.compiles()[1] - self._compiled_s
        self.begin(Span.evaluate)
        run.ranks.end()
        self.evaluation_began_s = self.now_s

    def evaluate(self, run: "CellRun", step: Any, num_samples: int) -> None:
        """Evaluates the model on the validation part and records the result."""
        self.training.num_validation = num_samples
        value, _ = self._metric(run, step, num_samples)
        if not self.is_whole:
            self.is_late(run.ranks.any)
        self.evaluated(value)

    def test(self, run: "CellRun", step: Any, num_samples: int) -> None:
        """Evaluates the trained weights on the test set, then ends the log."""
        self.begin(Span.test)
        began_s = self.now_s
        self.training.tested, results = self._metric(run, step, num_samples)
        self.evaluation = Evaluation(num_samples=num_samples, seconds=self.now_s - began_s, **results)
        self.end(run.timing)
        run.note_resources()

    def _metric(
        self, run: "CellRun", step: Any, num_samples: int
    ) -> tuple[float | None, dict[str, float | None]]:
        """Runs an evaluation. Returns the value of the target's metric, and a dict with the loss and the accuracy.

        The value of the metric is None if the loss is not finite.
        """
        clock.time_epoch(step, run.wait_for_ranks)
        loss, accuracy = run.outcome(step, num_samples)
        value = self.own_metric(step, num_samples) if self.own_metric is not None else None
        value = {ACCURACY: accuracy, LOSS: loss}.get(self.target.metric, value)
        return value if loss is not None else None, {"loss": loss, "accuracy": accuracy}

    def evaluated(self, value: float | None) -> None:
        """Computes the progress of training and calls `add` with it, when an evaluation ends."""
        epochs, rest = divmod(self.num_calls, self.calls_of_epoch)
        order = self.order
        steps = min(rest * self.in_call, len(order))
        num_samples = epochs * order.num_samples + min(steps * order.batch_size, order.num_samples)
        self.add(value, epochs * len(order) + steps, num_samples, num_samples / order.num_samples)

    def add(self, value: float | None, num_steps: int, num_samples: int, epochs: float) -> None:
        """Records the evaluation that ends now. So far, training took `num_steps`, `num_samples` and `epochs`.

        Also decides whether the training is over. It is over if the value is None or not finite, if all epochs were
        trained, or if time ran out. When an evaluation reaches the target, training goes on until the next evaluation,
        which shows whether the value stays.
        """
        # A metric may be in single precision, where 0.9 is 0.899999976. Rounded to seven digits, it is 0.9 again.
        value = None if value is None or not abs(value) <= MAX_NUMBER else float(f"{value:.7g}")
        self.training.evaluations.append(
            Evaluated(
                num_steps=num_steps,
                num_samples=num_samples,
                epochs=epochs,
                value=value,
                began_s=self.evaluation_began_s,
                ended_s=self.now_s,
            )
        )
        is_met = self.target.is_met(value)
        self.is_over = value is None or self.training.hit is not None or self.is_cut or self.is_whole
        if self.training.hit is not None:
            self.training.stayed = is_met
        # With definition=fixed, all trainings must be equally long. So a training that the time limit cut is no hit.
        elif is_met and not (self.is_cut and self.target.definition == Definition.fixed):
            self.training.hit = len(self.training.evaluations) - 1
