"""The template of one cell's run: what every engine does alike, from the first step to the `Measurement`.

An engine derives from `CellRun` and fills the methods that raise NotImplementedError. By default `run_steps` drives the
steps from outside; an engine whose framework calls back overrides it, and calls `measure_window`, `measure_epoch` and
`evaluate` from inside those calls. Nothing here runs between the parts of a timed step.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accelbench.data.arrays import read_counts
from accelbench.devices.proc import high_water_bytes
from accelbench.devices.registry import look
from accelbench.engines.backend import BaseBackend
from accelbench.engines.formats import FORMATS
from accelbench.engines.goal import GoalRun
from accelbench.engines.images import check_has_epochs, is_random
from accelbench.engines.served import serve
from accelbench.errors import UnsupportedError
from accelbench.measuring import checks, progress, schedule
from accelbench.measuring.checks import Findings, Measured, NewNetwork, Observations, in_time
from accelbench.measuring.runner import ONE_RANK, Clock, Compiles, RankGroup, Runner, Step, Timing
from accelbench.measuring.schedule import Limits
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import (
    Breakdown,
    Check,
    Epoch,
    Evaluation,
    Generation,
    Measurement,
    Observed,
    Operator,
    Serving,
    Work,
)
from accelbench.schema.ranges import MAX_NUMBER
from accelbench.schema.vocab import EPOCHS, SERVING, Device, Mode, Pipeline, Precision, Promise, Protocol

# In training: code that keeps something for every second batch drops it at the first new size, and shows in the others.
NUM_LOOKS = 3


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
    # Set here:
    step: Any  # of the timed window
    generation: Generation | None = None  # the times of tokens, once they were generated
    serving: Serving | None = None  # requests and their answers, once they were served
    diverged: str | None = None  # how the loss diverged; None if it did not

    def __init__(self, cell: Cell, data_folder: Path, backend: BaseBackend, ranks: RankGroup = ONE_RANK) -> None:
        self.limits = Limits(cell)
        check_has_epochs(cell)
        self.goal = GoalRun(cell, self.limits.ends.timeout_s) if cell.protocol == Protocol.target else None
        self.cell, self.data_folder = cell, data_folder
        self.backend, self.ranks = backend, ranks
        self.trains = cell.mode == Mode.train
        self.fits = cell.protocol in EPOCHS
        # One step shows whether a cell fits into memory and time; more steps would take as long again.
        self.is_one_step = cell.protocol == Protocol.steps and cell.steps == 1
        self.timing, self.seen = Timing(), Observations()
        self.epochs: list[Epoch] = []
        self.breakdown: Breakdown | None = None
        self.operators: list[Operator] = []
        self.defects: list[str] = []
        self.measured: list[Measured] = []  # what the network gave after its timed part
        self.changes: list[str] = []  # what its code changed of the settings while it was measured
        self.resources: Resources | None = None
        self.known_work: Work | None = None

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

    def begin_steady(self) -> None:
        """Is called once the warm-up is over."""

    def look(self) -> Measured:
        """What the measured network gives for a batch that was never fed, from a further step."""
        raise NotImplementedError

    def new_network(self, state: Any, precision: Precision, *, other: bool = False) -> NewNetwork:
        """A newly built network on the CPU, with the weights of the measured one, or with `other` ones.

        `state` is that of a `Measured`.
        """
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

    @property
    def checks_output(self) -> bool:
        """Whether further steps show what the network gives."""
        return not self.is_one_step and checks.OUTPUT not in self.seen.unchecked

    def measure(self, work: Work | None = None, requests: Path | None = None) -> Measurement | None:
        """Runs the cell; its measurement in the first rank. `work` is a step's, if known; `requests` gets raw times."""
        self.known_work, self.requests_path = work, requests
        self.run_steps()
        self.note_resources()
        progress.done()
        observed = self.observe()
        return None if observed is None else self._collect(observed)

    def run_steps(self) -> None:
        if not self.fits:
            self.measure_window(self.new_step())
            return
        for _ in range(self.cell.epochs if self.trains else schedule.NUM_INFER_EPOCHS):
            self.measure_epoch(self.new_step())
            if self.trains:
                self.evaluate(self.new_test_step())

    def measure_window(self, step: Step) -> None:
        """Measures blocks and single steps, or serves requests."""
        if self.cell.protocol in SERVING:
            serve(self, step)
            return
        runner = self.runner(step)
        runner.drive(self.window(runner))

    def runner(self, step: Step | None) -> Runner:
        """What runs the steps of the timed window; without a step, a framework's loop runs them."""
        cell, backend, self.step = self.cell, self.backend, step
        generates = cell.mode == Mode.generate  # each token waits for the one before: no two generations overlap
        queues = (backend.queues or cell.devices > 1) and not generates
        runner = Runner(step, backend.wait, backend.compiles, ranks=self.ranks, ends=self.limits.ends, queues=queues)
        runner.begin_steady = self.begin_steady
        runner.has_least = generates
        return runner

    def window(self, runner: Runner) -> Clock[None]:
        """Measures blocks and single steps; drops the times of parts that this cell's steps do not have."""
        cell, backend = self.cell, self.backend
        if cell.protocol == Protocol.steps:
            self.timing = yield from schedule.of_steps(runner, cell.warmup, cell.steps)
        else:
            self.timing = yield from schedule.of_window(runner, cell.window)
        if cell.mode == Mode.generate:  # which waits for the device within a step
            self.timing.launch_s = []
        self.seen.training.num_steps = self.timing.num_steady_steps
        self.changes += backend.changed()
        if self.fetches_inside:
            self.timing.data_s = []
        copies_inside = self.fetches_inside or self.copies_inside
        if backend.on_host or copies_inside or cell.data.pipeline == Pipeline.device:
            self.timing.copy_in_s = []
        if backend.on_host or self.trains:
            self.timing.copy_out_s = []

    def measure_epoch(self, step: Step) -> None:
        epoch = self.begin_epoch()
        took = schedule.time_epoch(step, self.wait_for_ranks, waits_for_first=epoch.is_first)
        self.end_epoch(epoch, took, step)

    def begin_epoch(self) -> schedule.EpochClock:
        self.ranks.end()  # so that all ranks begin together
        return schedule.EpochClock(self.timing, self.backend.compiles)

    def end_epoch(self, epoch: schedule.EpochClock, took: schedule.EpochTime, step: Any) -> None:
        """Notes an epoch, which `step` ran, or what has its outcome."""
        epoch.end(took)
        self.changes += self.backend.changed()
        num = self.feed.num_samples
        data_s = None if self.fetches_inside else took.data_s
        loss, accuracy = self.outcome(step, num) if self.trains else (None, None)
        noted = Epoch(seconds=took.seconds, num_samples=num, began_boot_s=epoch.began_s, data_s=data_s)
        self.epochs.append(replace(noted, loss=loss, accuracy=accuracy))

    def evaluate(self, step: Step) -> None:
        self.ranks.end()
        self.end_evaluation(schedule.time_epoch(step, self.wait_for_ranks).seconds, step)

    def end_evaluation(self, seconds: float, step: Any) -> None:
        """Notes an evaluation of the test set, which `step` ran, or what has its outcome."""
        num_samples = self.test_feed.num_samples
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

    def keep_output(self) -> None:
        """Keeps what the network gives for batches that were never fed, after its timed part."""
        self.note_resources()
        if not self.checks_output:
            return
        with self.seen.checking():
            for _ in range(NUM_LOOKS if self.trains else 1):
                self.measured.append(self.look())

    def new_network_in_time(self, state: Any, precision: Precision, **how: bool) -> NewNetwork:
        """`new_network`, which raises a NotInTimeError, as what it returns does, if `timeout_s` ends before it."""
        network = in_time(lambda: self.new_network(state, precision, **how), self.limits.left_s)
        return lambda batch, seed: in_time(lambda: network(batch, seed), self.limits.left_s)

    def _compared(self) -> Findings:
        findings = Findings()
        with self.seen.checking():
            for measured in self.measured:
                constant = self.cell.model.constant
                findings = checks.compare(measured, self.new_network_in_time, self.cell.precision, constant=constant)
                if findings.defects or findings.warnings or findings.observed is None:
                    break
        return findings

    def work_of_step(self, count: Callable[[], Work]) -> Work | None:
        """What one step has to do: as known or as `count` returns it; None if only one step is to run."""
        return None if self.is_one_step else self.known_work or count()

    def checked_loss(self, loss: float) -> float | None:
        """The loss of training; None if it diverged."""
        if abs(loss) <= MAX_NUMBER:
            return loss
        self.diverged = f"the loss diverged to {loss:.0e}" if math.isfinite(loss) else "the loss is not finite"
        return None

    def device_name(self) -> str:
        return self.backend.device_name() or look(self.cell.device).name

    def num_samples(self) -> dict[str, int]:
        """How many samples each split of the data has, as far as that is known."""
        return {} if is_random(self.cell) else read_counts(self.data_folder)

    def _collect(self, observed: Observed) -> Measurement:
        assert self.resources is not None, "the resources are noted before anything is observed"
        num_compiles, compile_s = self.resources.compiles
        counts = self.num_samples()
        found = self._compared()
        goal = self.goal
        evaluation = goal.evaluation if goal else None
        if goal is None and self.epochs:
            evaluation = self.epochs[-1].evaluation
        self.defects += [*self.seen.training.defects(), *found.defects]
        asked = FORMATS[self.cell.precision].computed
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
            target=goal.outcome() if goal else None,
            evaluation=evaluation,
            output_error=None if self.is_reference else found.error,
            peak_device_bytes=self.resources.peak_device_bytes,
            peak_host_bytes=self.resources.peak_host_bytes,
            checks=list(self._checks(observed, found)),
            checks_s=self.seen.checks_s,
            notes=[*self.notes(), *self.limits.left_out, *self.seen.notes(asked), *found.notes],
            warnings=[*self.warnings(), *self._common_warnings(), *self.seen.warnings(asked), *found.warnings],
            defects=list(dict.fromkeys(self.defects)),
            **self.timing.measured(),
        )

    def _checks(self, observed: Observed, found: Findings) -> Iterator[Check]:
        """What was observed of each promise."""
        if (read := self.backend.read_back()) is not None:
            yield Check(promise=Promise.settings, observed=f"{read}, were read back", share=1.0)
        elif observed.threads is not None:
            yield Check(promise=Promise.settings, observed="only the number of threads was read back")
        else:
            yield Check(promise=Promise.settings)
        yield self.seen.products.check()
        if self.trains:
            yield self.seen.training.check()
        if found.observed is not None:
            yield Check(promise=Promise.outputs, observed=found.observed, share=1.0)
        elif not self.trains:
            yield Check(promise=Promise.outputs)
        if self.cell.model.samples is None and self.timing.blocks:
            yield Check(promise=Promise.counts, observed="samples of each block, beside batch_size", share=1.0)

    def _common_warnings(self) -> Iterator[str]:
        if self.is_one_step:
            yield "one step shows that the cell runs, not how fast; its output was not checked"
        if self.diverged is not None and self.goal is None:
            yield self.diverged
        yield from dict.fromkeys(self.changes)
        if self.timing.compiled_in_steady_state:
            yield f"compiled {self.timing.compiled_in_steady_state} times in the steady state"
        if self.resources is not None and self.resources.fallbacks:
            yield f"ran on the CPU instead: {', '.join(self.resources.fallbacks)}"
