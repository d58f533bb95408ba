"""`CellRun`, the base class of the runs of all engines. It runs one cell, from the first step to the `Measurement`.

An engine derives from `CellRun` and implements the methods that raise NotImplementedError. By default, `run_steps`
calls the engine's steps in a loop. If the framework has its own loop, the engine overrides `run_steps`. The framework's
callbacks then use `window`, `begin_epoch`, `end_epoch` and `end_evaluation`. No code of this module runs between the
parts of a timed step.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelbench.data.arrays import read_counts
from accelbench.devices.proc import high_water_bytes
from accelbench.devices.registry import look
from accelbench.engines.goal import GoalRun
from accelbench.engines.images import is_random
from accelbench.engines.served import serve
from accelbench.errors import UnsupportedError
from accelbench.measuring import checks, clock
from accelbench.measuring.checks import (
    FORMATS,
    Findings,
    NewNetwork,
    Norms,
    Observations,
    ObservedOutput,
    Output,
    in_time,
)
from accelbench.measuring.clock import ONE_RANK, Clock, Compiles, Limits, RankGroup, Runner, Step, Timing
from accelbench.schema.cell import EPOCHS, SERVING, Cell, Mode, Pipeline, Precision, Protocol
from accelbench.schema.measurement import (
    Breakdown,
    Epoch,
    Evaluation,
    Generation,
    Measurement,
    Observed,
    Operator,
    Serving,
    Work,
)
from accelbench.schema.serialize import MAX_NUMBER


class BaseBackend:
    """Operates an engine's framework on one kind of device.

    The defaults are for a CPU on which a step has finished as soon as the call of the step returns.
    """

    on_host = True
    """True if the device computes in host memory. Then batches are not copied."""
    queues = False
    """True if a step may return before the device has finished it, or if `wait` itself takes a noticeable time."""

    def wait(self) -> None:
        """Returns when the device has finished everything that was launched on it."""

    def compiles(self) -> Compiles:
        """Returns how often this process has compiled so far, and how many seconds this took in total."""
        return 0, 0.0

    def fallbacks(self) -> list[str] | None:
        """Returns the names of the operators that ran on the CPU instead of the device.

        Returns None if such operators are not counted.
        """
        return None

    def peak_memory_bytes(self) -> int | None:
        """Returns the peak memory of the device's allocator in this process. Returns None if it is unknown."""
        return None

    def device_name(self) -> str | None:
        """Returns the name of the hardware. Returns None if the framework does not report it."""
        return None

    def changed(self) -> Iterator[str]:
        """Yields sentences about settings of the framework that the user's code changed."""
        yield from ()


class CellRun:
    """The run of one cell in this process.

    Raises UnsupportedError if the protocol needs epochs and the cell's images are random.
    """

    # Set by the engine:
    feed: Any  # the measured batches; `feed.num_samples` is the number of samples of an epoch
    test_feed: Any  # the batches of the test set, if the cell trains whole epochs
    build_s: float  # seconds to build the model and to copy it to its device
    num_params: int  # trainable parameters
    fetches_inside = False  # whether the step fetches and copies its batches inside `compute`
    copies_inside = False  # whether other code than `copy_in` copies the batches to the device
    # Batch sizes that the network accepts, ascending, up to the cell's; (): any size.
    serving_sizes: Sequence[int] = ()
    # Set here:
    step: Any  # the step of the timed window
    generation: Generation | None = None  # the times of tokens; None until tokens were generated
    serving: Serving | None = None  # requests and their answers; None until requests were served
    diverged: str | None = None  # a sentence about the diverged loss; None if the loss did not diverge

    def __init__(
        self, cell: Cell, data_folder: Path, backend: BaseBackend, ranks: RankGroup = ONE_RANK
    ) -> None:
        self.limits = Limits.of(cell)
        if is_random(cell) and cell.protocol in EPOCHS:
            raise UnsupportedError(
                f"protocol={cell.protocol}: random images have no epochs: use protocol=window or steps"
            )
        self.goal = GoalRun(cell, self.limits.timeout_s) if cell.protocol == Protocol.target else None
        self.cell, self.data_folder = cell, data_folder
        self.backend, self.ranks = backend, ranks
        self.trains = cell.mode == Mode.train
        self.fits = cell.protocol in EPOCHS
        # A cell of one step only tests whether the cell fits into memory and time. Checks would need more steps.
        self.is_one_step = cell.protocol == Protocol.steps and cell.steps == 1
        self.timing, self.observations = Timing(), Observations()
        self.epochs: list[Epoch] = []
        self.breakdown: Breakdown | None = None
        self.operators: list[Operator] = []
        self.defects: list[str] = []
        self.output: ObservedOutput | None = None  # an output of the network after its timed part
        self.changes: list[str] = []  # sentences about settings and batches that the user's code changed
        # Fields of `Measurement`: the resources that the measured steps used, before the output checks use more.
        self.resources: dict[str, Any] = {}

    def new_step(self) -> Step:
        """Makes a step that computes the measured batches.

        If the protocol has epochs, the batches end with the epoch. Otherwise they never end.
        """
        raise NotImplementedError

    def new_test_step(self) -> Step:
        """Makes a step that evaluates the trained model on the batches of the test set."""
        raise NotImplementedError

    def outcome(self, step: Any, num_samples: int) -> tuple[float | None, float | None]:
        """Returns the mean loss and the accuracy of the `num_samples` samples that `step` has computed.

        The loss is None if it diverged (see `checked_loss`). The accuracy is between 0 and 1, or None if the network
        does not classify.
        """
        raise NotImplementedError

    def observe(self) -> Observed | None:
        """Reports the precision and the device that were really used. Runs after the measurement.

        If several processes (ranks) run the cell, only the first rank returns the report. The others return None.
        """
        raise NotImplementedError

    def norms(self) -> Norms:
        """Returns the norm of each trained weight. An engine that returns none is not checked for training."""
        return {}

    def begin_steady(self) -> None:
        """Runs once, when the warm-up is over."""
        if self.trains:
            with self.observations.checking(checks.WEIGHTS):
                self.observations.training.before = self.norms()

    def observe_output(self) -> ObservedOutput:
        """Runs the measured network once more, on a batch that was never fed, and returns the network's output."""
        raise NotImplementedError

    def new_network(self, state: Any, precision: Precision) -> NewNetwork:
        """Builds the network again, on the CPU and in `precision`. Returns a function that runs it.

        `state` is the state of the measured network that `observe_output` has stored, such as its weights. The new
        network gets this state.
        """
        raise NotImplementedError

    def requests(self, num: int) -> Sequence[Any]:
        """Returns at most `num` batches, each with one sample, in host memory. Their format is that of the feed."""
        raise NotImplementedError

    def joined(self, requests: Sequence[Any]) -> Any:
        """Joins several of `requests` into one batch."""
        raise NotImplementedError

    def further_step(self) -> Step:
        """Makes another step, for another thread. It may use its own instance of the network."""
        raise NotImplementedError

    def begin_worker(self) -> None:
        """Prepares the calling thread, before the thread computes its first batch."""

    def in_worker(self) -> AbstractContextManager[Any]:
        """The context in which a serving thread computes a batch."""
        return nullcontext()

    def notes(self) -> Iterator[str]:
        """Yields the engine's notes. A note is a fact that does not cast doubt on the numbers."""
        yield from ()

    def warnings(self) -> Iterator[str]:
        """Yields the engine's warnings. A warning is a fact that casts doubt on the numbers."""
        yield from ()

    @property
    def checks_output(self) -> bool:
        """Is true if further steps after the measurement check the network's output."""
        return not self.is_one_step and checks.OUTPUT not in self.observations.unchecked

    def measure(self, requests: Path | None = None) -> Measurement | None:
        """Runs the cell and returns its measurement.

        If several processes (ranks) run the cell, only the first rank returns the measurement. The others return None.
        If the cell serves requests, the raw times of the requests are written to the file `requests`.
        """
        self.requests_path = requests
        self.run_steps()
        self.note_resources()
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
        """Measures blocks and single steps, or serves requests."""
        if self.cell.protocol in SERVING:
            serve(self, step)
            return
        runner = self.runner(step)
        runner.drive(self.window(runner))

    def runner(self, step: Step | None) -> Runner:
        """Makes a `Runner` for the timed steps. If `step` is None, the framework's loop runs the steps."""
        cell, backend, self.step = self.cell, self.backend, step
        generates = cell.mode == Mode.generate  # each token depends on the last: generations can't overlap
        queues = (backend.queues or cell.devices > 1) and not generates
        return Runner(
            step,
            backend.wait,
            backend.compiles,
            ranks=self.ranks,
            begin_steady=self.begin_steady,
            limits=self.limits,
            queues=queues,
            has_least=generates,
        )

    def window(self, runner: Runner) -> Clock[None]:
        """Measures blocks of steps, then single steps.

        The parts of a single step are timed separately, such as fetching a batch and copying the batch to the device.
        The clock times every part. If a part does nothing in this cell, its times are removed afterwards.
        """
        cell, backend = self.cell, self.backend
        if cell.protocol == Protocol.steps:
            self.timing = yield from clock.of_steps(runner, cell.warmup, cell.steps)
        else:
            self.timing = yield from clock.of_window(runner, cell.window)
        if cell.mode == Mode.generate:  # each step waits for the device inside `compute`
            self.timing.launch_s = []
        self.observations.training.num_steps = self.timing.num_steady_steps
        if self.fetches_inside:
            self.timing.data_s = []
        copies_inside = self.fetches_inside or self.copies_inside
        if backend.on_host or copies_inside or cell.data.pipeline == Pipeline.device:
            self.timing.copy_in_s = []
        if backend.on_host or self.trains:
            self.timing.copy_out_s = []

    def measure_epoch(self, step: Step) -> None:
        self.begin_epoch()
        took = clock.time_epoch(step, self.wait_for_ranks, waits_for_first=not self.epochs)
        self.end_epoch(took, step)

    def begin_epoch(self) -> None:
        self.ranks.end()  # all ranks begin together
        self.epoch_began_s = clock.boot_s()
        self.num_compiled, _ = self.backend.compiles()

    def end_epoch(self, took: clock.EpochTime, step: Any) -> None:
        """Records an epoch and its times `took`. In training, also records the loss and the accuracy of `step`."""
        timing = self.timing
        began_s = self.epoch_began_s
        if timing.steady_boot_s is not None:
            began_s, _ = timing.steady_boot_s
            timing.compiled_in_steady_state += self.backend.compiles()[0] - self.num_compiled
        else:
            timing.first_step_s = took.first_step_s
        timing.steady_boot_s = began_s, clock.boot_s()
        num = self.feed.num_samples
        loss, accuracy = self.outcome(step, num) if self.trains else (None, None)
        self.epochs.append(
            Epoch(
                seconds=took.seconds,
                num_samples=num,
                began_boot_s=self.epoch_began_s,
                loss=loss,
                accuracy=accuracy,
            )
        )

    def evaluate(self, step: Step) -> None:
        self.ranks.end()
        self.end_evaluation(clock.time_epoch(step, self.wait_for_ranks).seconds, step)

    def end_evaluation(self, seconds: float, step: Any) -> None:
        """Records an evaluation on the test set: the loss and the accuracy that `step` has summed up."""
        num_samples = self.test_feed.num_samples
        loss, accuracy = self.outcome(step, num_samples)
        evaluation = Evaluation(num_samples=num_samples, seconds=seconds, loss=loss, accuracy=accuracy)
        self.epochs[-1] = replace(self.epochs[-1], evaluation=evaluation)
        # Not later: at its end, a Trainer copies the weights into host memory.
        if len(self.epochs) == self.cell.epochs:
            self.note_resources()

    def wait_for_ranks(self) -> None:
        self.backend.wait()
        self.ranks.end()

    def note_resources(self) -> None:
        """Records the resources that were used so far. If they are already recorded, does nothing."""
        if not self.resources:
            backend = self.backend
            self.changes += backend.changed()
            num_compiles, compile_s = backend.compiles()
            self.resources = {
                "num_compiles": num_compiles or None,
                "compile_s": compile_s if num_compiles else None,
                "fallbacks": backend.fallbacks(),
                "peak_device_bytes": backend.peak_memory_bytes(),
                "peak_host_bytes": high_water_bytes(),
            }

    def keep_output(self) -> None:
        """Runs the network on a batch that was never fed, and stores the output for the output check."""
        self.note_resources()
        if not self.checks_output:
            return
        with self.observations.checking():
            self.output = self.observe_output()

    def new_network_in_time(self, state: Any, precision: Precision) -> NewNetwork:
        """Calls `new_network` with a time limit.

        Both this call and later calls of the returned network raise NotInTimeError when the time for checks is over.
        """
        network = in_time(lambda: self.new_network(state, precision), self.limits.left_s)

        def run(batch: Any, seed: int) -> Output:
            self.begin_worker()
            return network(batch, seed)

        return lambda batch, seed: in_time(lambda: run(batch, seed), self.limits.left_s)

    def _compared(self) -> Findings:
        if self.output is not None:
            cell = self.cell
            with self.observations.checking():
                return checks.compare(
                    self.output, self.new_network_in_time, cell.precision, constant=cell.model.constant
                )
        return Findings()

    def work_of_step(self, count: Callable[[], Work]) -> Work | None:
        """Calls `count`, which returns the operations and bytes of one step.

        Returns None if the cell runs only one step. Such a cell only tests whether it fits into memory and time.
        """
        return None if self.is_one_step else count()

    def checked_loss(self, loss: float) -> float | None:
        """Returns `loss`. If the loss is too large or not finite, sets `diverged` and returns None."""
        if abs(loss) <= MAX_NUMBER:
            return loss
        self.diverged = (
            f"the loss diverged to {loss:.0e}" if math.isfinite(loss) else "the loss is not finite"
        )
        return None

    def device_name(self) -> str:
        return self.backend.device_name() or look(self.cell.device).name

    def num_samples(self) -> dict[str, int]:
        """Returns a dict from a split of the data to its number of samples. The dict is empty for random images."""
        return {} if is_random(self.cell) else read_counts(self.data_folder)

    def _collect(self, observed: Observed) -> Measurement:
        counts = self.num_samples()
        findings = self._compared()
        goal = self.goal
        evaluation = None
        if goal is not None:
            evaluation = goal.evaluation
        elif self.epochs:
            evaluation = self.epochs[-1].evaluation
        self.defects += [*self.observations.training.defects(), *findings.defects]
        expected = FORMATS[self.cell.precision].computed
        return Measurement(
            **vars(observed),
            **self.resources,
            num_params=self.num_params,
            num_train_samples=self.cell.data.train_images or counts.get("train"),
            num_test_samples=counts.get("test"),
            build_s=self.build_s,
            breakdown=self.breakdown,
            serving=self.serving,
            generation=self.generation,
            operators=self.operators,
            epochs=self.epochs,
            target=goal.training if goal else None,
            evaluation=evaluation,
            output_error=findings.error,
            checked=list(self._checked(findings)),
            checks_s=self.observations.checks_s,
            notes=[*self.notes(), *findings.notes],
            warnings=[
                *self.warnings(),
                *self._common_warnings(),
                *self.observations.warnings(expected),
                *findings.warnings,
            ],
            defects=list(dict.fromkeys(self.defects)),
            **self.timing.measured(),
        )

    def _checked(self, findings: Findings) -> Iterator[str]:
        """Yields words for what was checked."""
        if self.observations.products.total:
            yield "precision"
        if self.trains and self.observations.training.is_observed:
            yield "weights"
        if findings.is_compared:
            yield "outputs"
        if self.cell.model.samples is None and self.timing.blocks:
            yield "counts"

    def _common_warnings(self) -> Iterator[str]:
        if self.is_one_step:
            yield "one step can't show how fast the cell is, and the output was not checked: use more steps"
        if self.diverged is not None and self.goal is None:
            yield self.diverged
        yield from dict.fromkeys(self.changes)
        if self.timing.compiled_in_steady_state:
            yield f"compiled {self.timing.compiled_in_steady_state} times in the steady state"
        if fallbacks := self.resources["fallbacks"]:
            yield f"ran on the CPU instead: {', '.join(fallbacks)}"
