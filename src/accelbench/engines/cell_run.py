"""The template of one cell's run: what every engine does alike, from the first step to the `Measurement`.

An engine derives from `CellRun` and fills the methods that raise NotImplementedError. By default `run_steps` drives the
steps from outside; an engine whose framework calls back overrides it, and calls `measure_window`, `measure_epoch` and
`evaluate` from inside those calls. Nothing here runs between the parts of a timed step.
"""

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from typing import Any

from numpy.typing import NDArray

from accelbench.data.arrays import read_counts
from accelbench.devices.proc import high_water_bytes
from accelbench.devices.registry import look
from accelbench.engines.backend import BaseBackend
from accelbench.engines.formats import FORMATS
from accelbench.engines.images import Shape, check_has_epochs, is_random
from accelbench.engines.served import serve
from accelbench.engines.target import TargetRun
from accelbench.errors import UnsupportedError
from accelbench.measuring import clock, output_check, witness
from accelbench.measuring.breakdown import has_time
from accelbench.measuring.clock import Limits
from accelbench.measuring.output_check import NOT_FINITE, NUM_ROWS, Findings, Output, Outputs, References
from accelbench.measuring.promises import Observations, check_timed, replay, settings_check
from accelbench.measuring.runner import ONE_RANK, Compiles, RankGroup, Runner, Step, Timing, Watch
from accelbench.schema.cell import Cell
from accelbench.schema.generation import Generation
from accelbench.schema.measurement import Breakdown, Epoch, Evaluation, Measurement, Observed, Operator, Serving, Work
from accelbench.schema.ranges import MAX_NUMBER
from accelbench.schema.vocab import EPOCHS, QUANTIZED, SERVING, Device, Mode, Pipeline, Precision, Protocol

# In which a new network rounds as a cell does, if not in its precision. No CPU has tf32: bf16 rounds to fewer bits.
ROUNDS_ALIKE = {Precision.fp32: Precision.fp64, Precision.tf32: Precision.bf16_mixed}


@dataclass(frozen=True)
class Resources:
    """What the measured steps used; noted before anything else runs."""

    compiles: Compiles
    fallbacks: list[str] | None
    peak_device_bytes: int | None
    peak_host_bytes: int | None


class CellRun:
    """One cell's run in this process. An UnsupportedError says that whole epochs of random images were asked for."""

    # Set by the engine:
    feed: Any  # the batches that are measured; its `num_samples` are those of an epoch
    test_feed: Any  # the same of the test set, if it trains whole epochs
    build_s: float  # seconds from nothing to a model on its device
    num_params: int  # trainable parameters
    fetches_inside = False  # whether the step fetches and copies its batches inside `compute`
    copies_inside = False  # whether something else than `copy_in` copies them to the device
    serving_sizes: Sequence[int] = ()  # of batches that can be computed, ascending, the last one the cell's; (): any
    num_reference_rows = NUM_ROWS  # how many of `rows` `reference_outputs` gives, the first ones
    same_random = False  # whether a seed gives both networks the same random numbers
    # Set here:
    step: Any  # of the timed window, which further steps are like
    outputs: Outputs | None = None  # of the network that was measured
    generation: Generation | None = None  # the times of tokens, once they were generated
    serving: Serving | None = None  # requests and their answers, once they were served
    watch: Watch | None = None  # what looks at one of the measured steps, if anything does: an engine's run itself
    why_unchecked: str | None = None  # why the output was not checked; None if it was
    timed: tuple[Any, Output | None] | None = None  # a batch of a timed step, and its output if that can be compared

    def __init__(self, cell: Cell, data_folder: Path, backend: BaseBackend, ranks: RankGroup = ONE_RANK) -> None:
        self.limits = Limits(cell)
        check_has_epochs(cell)
        self.to_target = TargetRun(cell, self.limits.ends.timeout_s) if cell.protocol == Protocol.target else None
        self.cell, self.data_folder, self.backend, self.ranks = cell, data_folder, backend, ranks
        self.trains = cell.mode == Mode.train
        self.fits = cell.protocol in EPOCHS
        # One step shows whether a cell fits into memory and time; more steps would take as long again.
        self.is_one_step = cell.protocol == Protocol.steps and cell.steps == 1
        self.timing, self.seen = Timing(), Observations()
        self.epochs: list[Epoch] = []
        self.breakdown: Breakdown | None = None
        self.operators: list[Operator] = []
        self.defects: list[str] = []
        self.resources: Resources | None = None
        self.known_work: Work | None = None
        self.rows: list[int] = []  # of the output that are compared, once they were drawn

    def new_step(self) -> Step:
        """A step over the batches that are measured: without end, or in `fit` until the epoch's end."""
        raise NotImplementedError

    def new_test_step(self) -> Step:
        """A step that evaluates the trained model, until the test set's end."""
        raise NotImplementedError

    def outcome(self, step: Any, num_samples: int) -> tuple[float | None, float | None]:
        """Mean loss (`checked_loss`) and accuracy (0 to 1, None if nothing is classified) of a step's samples."""
        raise NotImplementedError

    def observe(self) -> Observed | None:
        """What really ran, after everything was measured; None in a process that is not the first of its ranks."""
        raise NotImplementedError

    def compared_inputs(self) -> tuple[Any, Any]:
        """A batch that was fed, that of `timed` if there is one, and one that the feed never gives."""
        raise NotImplementedError

    def measured_output(self, batch: Any, rows: Sequence[int]) -> Output:
        """The output of what was timed for a batch, which is made as large as a whole step, with these of its rows."""
        raise NotImplementedError

    def reference_outputs(
        self, batches: Sequence[Any], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        """The outputs of a newly built network on the CPU, in fp32 or `precision`, with the first of `rows`.

        The batches are as `compared_inputs` returns them; for the i-th one, random numbers are seeded as
        `seed_output(i % 2)` does. With `other`, the network has other weights than that which was measured.
        """
        raise NotImplementedError

    def seed_output(self, number: int) -> None:
        """Seeds the random numbers that the next output is computed with, as `reference_outputs` does its batches'."""

    def reordered_inputs(self, batch: Any, order: Sequence[int]) -> Any:
        """The batch whose sample i is sample `order[i]` of `batch`; None if that can't be made."""
        return None

    def mixed_inputs(self, batch: Any, other: Any, rows: Sequence[int]) -> Any:
        """The batch with these samples of another one; None if it has no others, or that can't be made."""
        return None

    def inputs_of_rows(self, batch: Any, rows: Sequence[int]) -> Sequence[Hashable]:
        """What the network gets for each of these samples of a batch."""
        raise NotImplementedError

    def requests(self, num: int) -> Sequence[Any]:
        """At most so many batches of one sample each, in host memory, as the feed gives them."""
        raise UnsupportedError(f"protocol={self.cell.protocol}: engine={self.cell.engine} serves no requests")

    def joined(self, requests: Sequence[Any]) -> Any:
        """One batch of several of `requests`."""
        raise NotImplementedError

    def further_step(self) -> Step:
        """A step of another instance of the network, for a further thread."""
        raise UnsupportedError(f"server.workers={self.cell.server.workers}: engine={self.cell.engine} has one: use 1")

    def begin_worker(self) -> None:
        """Sets what belongs to the thread that calls it, before that computes its first batch."""

    def in_worker(self) -> AbstractContextManager[Any]:
        """The context in which a thread that serves computes a batch."""
        return nullcontext()

    def numbers(self, result: Any) -> NDArray[Any]:
        """A copy of the floating-point numbers of a step's result, in host memory."""
        raise NotImplementedError

    def notes(self) -> Iterator[str]:
        """What a reader should know of what was measured, without a doubt about the numbers."""
        yield from ()

    def warnings(self) -> Iterator[str]:
        """The engine's own warnings to the reader of the numbers."""
        yield from ()

    @property
    def is_reference(self) -> bool:
        """Whether it is what outputs are compared with: plain fp32 on the CPU."""
        changed = self.cell.options.change_output or (self.cell.keras is not None and self.cell.keras.non_defaults)
        return (self.cell.device, self.cell.precision) == (Device.cpu, Precision.fp32) and not changed

    def measure(self, work: Work | None = None, requests: Path | None = None) -> Measurement | None:
        """Runs the cell; its measurement in the first rank. `work` is a step's, if known; `requests` gets raw times."""
        self.known_work, self.requests_path = work, requests
        self.run_steps()
        self.note_resources()
        witness.say(witness.Moment.done)
        observed = self.observe()
        return None if observed is None else self._collect(observed)

    def run_steps(self) -> None:
        if not self.fits:
            self.measure_window(self.new_step())
            return
        for _ in range(self.cell.epochs if self.trains else clock.NUM_INFER_EPOCHS):
            self.measure_epoch(self.new_step())
            if self.trains:
                self.evaluate(self.new_test_step())

    def measure_window(self, step: Step) -> None:
        """Measures blocks and single steps; drops the times of parts that this cell's steps do not have."""
        if self.cell.protocol in SERVING:
            serve(self, step)
            return
        cell, self.step, watch = self.cell, step, None if self.is_one_step else self.watch
        generates = cell.mode == Mode.generate  # each token waits for the one before: no two generations overlap
        queues = (self.backend.queues or cell.devices > 1) and not generates
        backend, ends = self.backend, self.limits.ends
        runner = Runner(step, backend.wait, backend.compiles, ranks=self.ranks, watch=watch, ends=ends, queues=queues)
        runner.has_least = generates
        if cell.protocol == Protocol.steps:
            self.timing = clock.measure_steps(runner, cell.warmup, cell.steps)
        else:
            self.timing = clock.measure(runner, cell.window)
        if generates:  # which waits for the device within a step
            self.timing.launch_s = []
        self.seen.training.num_steps = self.timing.num_watched
        self.seen.training.num_after_look = self.timing.num_after_look
        self.defects += self.backend.changed()
        if self.fetches_inside:
            self.timing.data_s = []
        copies_inside = self.fetches_inside or self.copies_inside
        if self.backend.on_host or copies_inside or cell.data.pipeline == Pipeline.device:
            self.timing.copy_in_s = []
        if self.backend.on_host or self.trains:
            self.timing.copy_out_s = []

    def measure_epoch(self, step: Step) -> None:
        self.ranks.end()  # so that all ranks begin together
        with witness.timed():
            began_s, took = clock.measure_epoch(self.timing, step, self.wait_for_ranks, self.backend.compiles)
        self.defects += self.backend.changed()
        num, data_s = self.feed.num_samples, None if self.fetches_inside else took.data_s
        loss, accuracy = self.outcome(step, num) if self.trains else (None, None)
        epoch = Epoch(seconds=took.seconds, num_samples=num, began_boot_s=began_s, data_s=data_s)
        self.epochs.append(replace(epoch, loss=loss, accuracy=accuracy))

    def evaluate(self, step: Step) -> None:
        num_samples = self.test_feed.num_samples
        self.ranks.end()
        with witness.timed():
            seconds = clock.time_epoch(step, self.wait_for_ranks).seconds
        loss, accuracy = self.outcome(step, num_samples)
        tested = Evaluation(num_samples=num_samples, seconds=seconds, loss=loss, accuracy=accuracy)
        self.epochs[-1] = replace(self.epochs[-1], evaluation=tested)
        if len(self.epochs) == self.cell.epochs:  # before a trainer ends, which copies the weights into host memory
            self.note_resources()

    def wait_for_ranks(self) -> None:
        self.backend.wait()
        self.ranks.end()

    def note_resources(self) -> None:
        """Notes what the measured steps used, once: looking at the output may compile and allocate too."""
        if self.resources is None:
            backend = self.backend
            peak_bytes = backend.peak_memory_bytes(), high_water_bytes()
            self.resources = Resources(backend.compiles(), backend.fallbacks(), *peak_bytes)

    @check_timed
    def keep_outputs(self, size: int, shapes: Sequence[Shape] | None) -> None:
        """Keeps what inference gives, after its timed part, for checks: `size` rows, of one of `shapes` (None: any)."""
        self.note_resources()
        if self.is_one_step or self.why_unchecked is not None:
            return
        rows = self.rows_of(size)
        fed, unseen = self.compared_inputs()
        num_changed = -(-len(rows) // 2)
        if (mixed := self.mixed_inputs(unseen, fed, rows[num_changed:])) is None:
            num_changed = len(rows)
        else:
            unseen = mixed

        def output(number: int, batch: Any) -> Output:
            self.seed_output(number)
            return self.measured_output(batch, rows)

        timed = self.timed[1] if self.timed else None
        of_unseen = output(0, unseen)  # as the reference, which gets the unseen inputs first
        moved = None if timed is None else self._moved_output(fed, size)
        close = output_check.limit(self.cell.precision)
        if timed is not None and moved is not None and output_check.by_axis(timed, moved) <= close:
            of_fed = timed  # no state, random number or place in the batch makes a difference
        else:
            if moved is not None:  # all of them anew, each one call after the other: it may compute at some calls alone
                of_unseen = output(0, unseen)
            of_fed = output(1, fed)
            moved = self._moved_output(fed, size)

        def inputs_of(batch: Any, num: int) -> Sequence[Hashable]:
            return self.inputs_of_rows(batch, self.rows[:num])

        self.outputs = Outputs((fed, unseen), inputs_of, size, shapes, of_fed, of_unseen, timed, moved, num_changed)

    def _moved_output(self, batch: Any, size: int) -> Output | None:
        """The output for the batch in another order, put back into its own; None if it can't be moved."""
        order = output_check.random_order(size)
        if size == 1 or (reordered := self.reordered_inputs(batch, order)) is None:
            return None
        self.seed_output(1)
        return self.measured_output(reordered, [order.index(row) for row in self.rows])

    def rows_of(self, size: int) -> list[int]:
        """The rows of a step's output that are compared, drawn when they are first needed."""
        # At random, in an order that nothing in the process can know before.
        self.rows = self.rows or SystemRandom().sample(range(size), min(NUM_ROWS, size))
        return self.rows

    def references(self) -> References:
        """What the outputs are compared with. It raises a NotInTimeError if the cell would run into its time limit."""

        def run(batches: Sequence[Any], **how: Any) -> list[Output]:
            return output_check.in_time(lambda: self.reference_outputs(batches, **how), self.limits.left_s)

        precision = self.cell.precision
        return References(
            run,
            rounded=None if precision in QUANTIZED else ROUNDS_ALIKE.get(precision, precision),
            num_rows=self.num_reference_rows,
            same_random=self.same_random,
            constant=self.cell.model.constant,
            in_training=any(self.seen.modes),
        )

    @check_timed
    def look_for_kept_results(self, fed: Callable[[], Any], unseen: Callable[[], Any]) -> None:
        """Runs further steps on inputs that were fed before, and on others; see `replay`. Not if time would run out."""
        if has_time(self.timing.step_s, self.cell.timeout_s):
            self.seen.replayed = replay(fed, unseen, self.seconds_of, self.timing.steps_s, on_host=self.backend.on_host)

    def seconds_of(self, batches: Sequence[Any]) -> float:
        start = time.perf_counter()
        for batch in batches:
            self.step.compute(self.step.copy_in(batch))
        self.backend.wait()
        return time.perf_counter() - start

    def work_of_step(self, count: Callable[[], Work]) -> Work | None:
        """What one step has to do: as known or as `count` returns it; None if only one step is to run."""
        return None if self.is_one_step else self.known_work or count()

    def checked_loss(self, loss: float) -> float | None:
        """The loss of training; None if it diverged, which makes the cell invalid unless it trains to a target."""
        if abs(loss) <= MAX_NUMBER:
            return loss
        if self.to_target is None:
            how = f"diverged to {loss:.0e}" if math.isfinite(loss) else "is not finite"
            self.defects = self.defects or [f"the loss {how}"]
        return None

    def mark_not_finite(self) -> None:
        """Makes the cell invalid: its loss, or in inference its output, is not finite."""
        if self.to_target is None:
            self.defects = self.defects or ["the loss is not finite" if self.trains else NOT_FINITE]

    def device_name(self) -> str:
        return self.backend.device_name() or look(self.cell.device).name

    def num_samples(self) -> dict[str, int]:
        """How many samples each split of the data has, as far as that is known."""
        return {} if is_random(self.cell) else read_counts(self.data_folder)

    def _collect(self, observed: Observed) -> Measurement:
        assert self.resources is not None, "the resources are noted before anything is observed"
        num_compiles, compile_s = self.resources.compiles
        counts = self.num_samples()
        found, precision = Findings(), self.cell.precision
        if self.outputs is not None:
            with self.seen.checking():
                found = output_check.check(self.outputs, precision, self.references())
        if (to_target := self.to_target) is None or not to_target.diverged:
            self.defects += self.seen.defects()
        checks = self.seen.checks(self.outputs, len(self.rows), found, trains=self.trains)
        asked = FORMATS[precision].computed
        own_warnings = [*self.warnings(), *self._common_warnings(None if found.defects else found.error)]
        return Measurement(
            **vars(observed),
            num_params=self.num_params,
            num_train_samples=self.cell.data.train_images or counts.get("train"),
            num_test_samples=counts.get("test"),
            build_s=self.build_s,
            compile_s=compile_s if num_compiles else None,
            num_compiles=num_compiles or None,
            fallbacks=self.resources.fallbacks,
            breakdown=self.breakdown,
            serving=self.serving,
            generation=self.generation,
            operators=self.operators,
            epochs=self.epochs,
            target=to_target.outcome() if to_target else None,
            evaluation=to_target.evaluation if to_target else self.epochs[-1].evaluation if self.epochs else None,
            output_error=None if self.is_reference else found.error,
            peak_device_bytes=self.resources.peak_device_bytes,
            peak_host_bytes=self.resources.peak_host_bytes,
            checks=[settings_check(self.backend.read_back(), observed.threads), *checks],
            checks_s=self.seen.checks_s,
            notes=[*self.notes(), *self.limits.left_out, *self.seen.notes(asked), *found.notes],
            warnings=[*own_warnings, *self.seen.warnings(asked), *found.warnings],
            defects=list(dict.fromkeys([*self.defects, *found.defects])),
            **self.timing.measured(),
        )

    def _common_warnings(self, error: float | None) -> Iterator[str]:
        precision = self.cell.precision
        if self.is_one_step:
            yield "one step shows that the cell runs, not how fast; its output was not checked"
        if self.why_unchecked is not None:
            yield f"its output was not checked: {self.why_unchecked}"
        if self.timing.compiled_in_steady_state:
            yield f"compiled {self.timing.compiled_in_steady_state} times in the steady state"
        if self.resources is not None and self.resources.fallbacks:
            yield f"ran on the CPU instead: {', '.join(self.resources.fallbacks)}"
        if error is not None and output_check.limit(precision) < error <= output_check.wrong(precision):
            yield f"the output differs from fp32's on the CPU by {100 * error:.1f} %"
