"""The template of one cell's run: what every engine does alike, from the first step to the `Measurement`.

An engine derives from `CellRun` and fills the methods that raise NotImplementedError. By default `run_steps` drives the
steps from outside; an engine whose framework calls back overrides it, and calls `measure_window`, `measure_epoch` and
`evaluate` from inside those calls. Nothing here runs between the parts of a timed step.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from accelbench.data.manifest import read_counts
from accelbench.devices.proc import high_water_bytes
from accelbench.devices.registry import look
from accelbench.engines.compared_outputs import ComparedOutputs
from accelbench.engines.formats import FORMATS
from accelbench.engines.sources import Shape, check_has_epochs, is_random
from accelbench.measuring import clock, witness
from accelbench.measuring.breakdown import has_time
from accelbench.measuring.output_check import NOT_FINITE, Findings, check, limit, wrong
from accelbench.measuring.promises import Observations, check_timed, replay
from accelbench.measuring.runner import ONE_RANK, Compiles, RankGroup, Runner, Step, Timing, Watch, no_compiles
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Answers, Breakdown, Check, Epoch, Evaluation, Measurement, Operator, Work
from accelbench.schema.ranges import MAX_NUMBER
from accelbench.schema.vocab import MODULE, Device, Mode, Pipeline, Precision, Promise, Protocol


class BaseBackend:
    """How an engine's framework runs on one kind of device. The defaults are a CPU that returns when it is done."""

    on_host = True
    """Whether a batch is computed in the memory where it was fetched."""

    def wait(self) -> None:
        """Returns when everything launched on the device is done."""

    def compiles(self) -> Compiles:
        """The number of compilations so far, and their seconds."""
        return no_compiles()

    def fallbacks(self) -> list[str] | None:
        """Names of the operators that ran on the CPU instead; None if that can't happen unnoticed."""
        return None

    def peak_memory_bytes(self) -> int | None:
        """The device allocator's peak since the process started; None if the device reports none."""
        return None

    def device_name(self) -> str | None:
        """The hardware's name; None if only `devices.registry` knows it."""
        return None

    def read_back(self) -> str | None:
        """The settings that `changed` reads back, in words; None if it reads none."""
        return None

    def changed(self) -> list[str]:
        """Sentences about the framework's settings that changed while the cell was measured; each makes it invalid."""
        return []


@dataclass(frozen=True)
class Resources:
    """What the measured steps used; noted before anything else runs."""

    compiles: Compiles
    fallbacks: list[str] | None
    peak_device_bytes: int | None
    peak_host_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What really ran, as the engine observed it; the attributes are those of `schema.measurement.Measurement`."""

    device: str
    device_name: str
    precision: str
    num_devices: int
    threads: int | None
    loss: float | None = None
    work: Work | None = None
    cudnn_benchmark: bool | None = None
    export_s: float | None = None
    quantize_s: float | None = None
    answers: Answers | None = None
    artifact_bytes: int | None = None
    formats: Mapping[str, int] = field(default_factory=dict)


class CellRun(ComparedOutputs):
    """One cell's run in this process. An UnsupportedError says that whole epochs of random images were asked for.

    Attributes:
        feed: the batches that are measured; its `num_samples` are those of an epoch. Set by the engine.
        test_feed: the same of the test set; set by the engine if it trains whole epochs.
        build_s: seconds from nothing to a model on its device; set by the engine.
        num_params: trainable parameters; set by the engine.
        step: of the timed window, which further steps are like.
    """

    feed: Any
    test_feed: Any
    build_s: float
    num_params: int
    step: Any

    def __init__(self, cell: Cell, data_folder: Path, backend: BaseBackend, ranks: RankGroup = ONE_RANK) -> None:
        super().__init__(cell)
        check_has_epochs(cell)
        self.data_folder, self.backend, self.ranks = data_folder, backend, ranks
        self.trains = cell.mode == Mode.train
        self.fits = cell.protocol == Protocol.fit
        self.timing = Timing()
        self.epochs: list[Epoch] = []
        self.breakdown: Breakdown | None = None
        self.operators: list[Operator] = []
        self.defects: list[str] = []
        self.resources: Resources | None = None
        self.output_error: float | None = None
        self.known_work: Work | None = None
        self.seen = Observations()
        # One step shows whether a cell fits into memory and time; more steps would take as long again.
        self.is_one_step = cell.protocol == Protocol.steps and cell.steps == 1

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

    def watch(self, step: Any) -> Watch | None:
        """What looks at one of the measured steps; None if nothing does."""
        return None

    def notes(self) -> Iterator[str]:
        """What a reader should know of what was measured, without a doubt about the numbers."""
        yield from ()

    def warnings(self) -> Iterator[str]:
        """The engine's own warnings to the reader of the numbers."""
        yield from ()

    def tokens_per_sample(self) -> float | None:
        """Tokens of the measured batches over their samples; None if nothing counts them."""
        return None

    @property
    def fetches_inside(self) -> bool:
        """Whether the step fetches and copies its batches inside `compute`."""
        return False

    @property
    def copies_inside(self) -> bool:
        """Whether something else than `copy_in` copies batches to the device."""
        return self.fetches_inside

    @property
    def is_reference(self) -> bool:
        """Whether the cell is what outputs are compared with: plain fp32 on the CPU, without options."""
        changed = self.cell.options.change_output or (self.cell.keras is not None and self.cell.keras.non_defaults)
        return (self.cell.device, self.cell.precision) == (Device.cpu, Precision.fp32) and not changed

    def measure(self, work: Work | None = None) -> Measurement | None:
        """Runs the cell and collects its measurement; None in a process that is not the first of its ranks.

        `work` is that of one step, if it has been counted already.
        """
        self.known_work = work
        self.run_steps()
        self.note_resources()
        witness.say(witness.Moment.done)
        observed = self.observe()
        return None if observed is None else self._collect(observed)

    def run_steps(self) -> None:
        """Runs everything that is timed."""
        if not self.fits:
            self.measure_window(self.new_step())
            return
        for _ in range(self.cell.epochs if self.trains else clock.NUM_INFER_EPOCHS):
            self.measure_epoch(self.new_step())
            if self.trains:
                self.evaluate(self.new_test_step())

    def measure_window(self, step: Step) -> None:
        """Measures blocks and single steps; drops the times of parts that this cell's steps do not have."""
        cell, self.step, watch = self.cell, step, None if self.is_one_step else self.watch(step)
        runner = Runner(step, self.backend.wait, self.backend.compiles, ranks=self.ranks, watch=watch)
        if cell.protocol == Protocol.steps:
            self.timing = clock.measure_steps(runner, cell.warmup, cell.steps)
        else:
            self.timing = clock.measure(runner, cell.window)
        self.seen.training.num_steps = self.timing.num_watched
        self.seen.training.num_after_look = self.timing.num_after_look
        self.defects += self.backend.changed()
        if self.fetches_inside:
            self.timing.data_s = []
        if self.backend.on_host or self.copies_inside or cell.data.pipeline == Pipeline.device:
            self.timing.copy_in_s = []
        if self.backend.on_host or self.trains:
            self.timing.copy_out_s = []

    def measure_epoch(self, step: Step) -> None:
        """Measures one epoch."""
        self.ranks.end()  # so that all ranks begin together
        with witness.timed():
            began_boot_s, took = clock.measure_epoch(self.timing, step, self._wait_for_ranks, self.backend.compiles)
        self.defects += self.backend.changed()
        num_samples = self.feed.num_samples
        loss, accuracy = self.outcome(step, num_samples) if self.trains else (None, None)
        self.epochs.append(
            Epoch(
                seconds=took.seconds,
                num_samples=num_samples,
                began_boot_s=began_boot_s,
                data_s=None if self.fetches_inside else took.data_s,
                loss=loss,
                accuracy=accuracy,
            )
        )

    def evaluate(self, step: Step) -> None:
        """Evaluates the model on the test set after an epoch, outside of the epoch's time."""
        num_samples = self.test_feed.num_samples
        self.ranks.end()
        with witness.timed():
            seconds = clock.time_epoch(step, self._wait_for_ranks).seconds
        loss, accuracy = self.outcome(step, num_samples)
        tested = Evaluation(num_samples=num_samples, seconds=seconds, loss=loss, accuracy=accuracy)
        self.epochs[-1] = replace(self.epochs[-1], evaluation=tested)

    def _wait_for_ranks(self) -> None:
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
        """Keeps outputs of what was timed, which are then checked. To be called in inference, after the timed part.

        The arguments are those of `compute_outputs`.
        """
        self.note_resources()
        if not self.is_one_step:
            self.compute_outputs(size, shapes)

    @check_timed
    def look_for_kept_results(self, fed: Callable[[], Any], unseen: Callable[[], Any]) -> None:
        """Runs further steps on inputs that were fed before, and on others, unless the time would run out.

        `fed` makes a batch that was fed before, in new memory, and `unseen` one that the feed never gives, another one
        at each call.
        """
        steps_s = self.timing.latency_s or [block.seconds / block.num_steps for block in self.timing.blocks]
        if has_time(median(steps_s), self.cell.timeout_s):
            self.seen.replayed = replay(fed, unseen, self.seconds_of, steps_s, on_host=self.backend.on_host)

    def seconds_of(self, batches: Sequence[Any]) -> float:
        """How long further steps take on these batches."""
        start = time.perf_counter()
        for batch in batches:
            self.step.compute(self.step.copy_in(batch))
        self.backend.wait()
        return time.perf_counter() - start

    def work_of_step(self, count: Callable[[], Work]) -> Work | None:
        """What one step has to do: as known or as `count` returns it; None if only one step is to run."""
        return None if self.is_one_step else self.known_work or count()

    def checked_loss(self, loss: float) -> float | None:
        """The loss of training; None if it diverged, which makes the cell invalid. A record holds no such number."""
        if abs(loss) <= MAX_NUMBER:
            return loss
        how = f"diverged to {loss:.0e}" if math.isfinite(loss) else "is not finite"
        self.defects = self.defects or [f"the loss {how}"]
        return None

    def mark_not_finite(self) -> None:
        """Makes the cell invalid: its loss, or in inference its output, is not finite."""
        self.defects = self.defects or ["the loss is not finite" if self.trains else NOT_FINITE]

    def device_name(self) -> str:
        """The hardware's name, as the backend or else the device's registry knows it."""
        return self.backend.device_name() or look(self.cell.device).name

    def _collect(self, observed: Observed) -> Measurement:
        assert self.resources is not None, "the resources are noted before anything is observed"
        num_compiles, compile_s = self.resources.compiles
        counts = {} if is_random(self.cell) or self.cell.data.name == MODULE else read_counts(self.data_folder)
        found = Findings()
        if self.outputs is not None:
            with self.seen.checking():
                found = check(self.outputs, self.cell.precision, self.references())
        self.defects += self.seen.defects()
        asked = FORMATS[self.cell.precision].computed
        self.output_error = None if self.is_reference else found.error
        return Measurement(
            **vars(observed),
            num_params=self.num_params,
            num_train_samples=counts.get("train"),
            num_test_samples=counts.get("test"),
            build_s=self.build_s,
            compile_s=compile_s if num_compiles else None,
            num_compiles=num_compiles or None,
            fallbacks=self.resources.fallbacks,
            breakdown=self.breakdown,
            operators=self.operators,
            epochs=self.epochs,
            evaluation=self.epochs[-1].evaluation if self.epochs else None,
            output_error=self.output_error,
            peak_device_bytes=self.resources.peak_device_bytes,
            peak_host_bytes=self.resources.peak_host_bytes,
            tokens_per_sample=self.tokens_per_sample(),
            checks=[
                self._settings_check(observed),
                *self.seen.checks(self.outputs, len(self.rows), found, trains=self.trains),
            ],
            checks_s=self.seen.checks_s,
            notes=[*self.notes(), *self.seen.notes(asked), *found.notes],
            warnings=[
                *self.warnings(),
                *self._common_warnings(None if found.defects else found.error),
                *self.seen.warnings(asked),
                *found.warnings,
            ],
            defects=list(dict.fromkeys([*self.defects, *found.defects])),
            **self.timing.measured(),
        )

    def _settings_check(self, observed: Observed) -> Check:
        if (read := self.backend.read_back()) is not None:
            return Check(promise=Promise.settings, observed=f"{read}, were read back", share=1.0)
        if observed.threads is not None:
            return Check(promise=Promise.settings, observed="the number of threads alone was read back")
        return Check(promise=Promise.settings)

    def _common_warnings(self, output_error: float | None) -> Iterator[str]:
        if self.is_one_step:
            yield "one step shows that the cell runs, not how fast; its output was not checked"
        if self.timing.compiled_in_steady_state:
            yield f"compiled {self.timing.compiled_in_steady_state} times in the steady state"
        if self.resources is not None and self.resources.fallbacks:
            yield f"ran on the CPU instead: {', '.join(self.resources.fallbacks)}"
        if output_error is not None and limit(self.cell.precision) < output_error <= wrong(self.cell.precision):
            yield f"the output differs from fp32's on the CPU by {100 * output_error:.1f} %"
