"""The PyTorch engine: measures one cell. A plain Python loop runs the steps of the cell."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import torch

from accelbench.data.order import VALIDATION
from accelbench.devices import allocators
from accelbench.engines.goal import GoalRun
from accelbench.engines.pytorch import options, zoo
from accelbench.engines.pytorch.backends import Backend, backend_for, compilations
from accelbench.engines.pytorch.feed import DrawnFeed, Feed, pins
from accelbench.engines.pytorch.flops import (
    Counter,
    busiest,
    count,
)
from accelbench.engines.pytorch.generate import GenerateWorkload
from accelbench.engines.pytorch.module import (
    EpochStep,
    InferStep,
    Program,
    TestStep,
    TrainStep,
    new_optimizer,
    trainable,
)
from accelbench.engines.pytorch.network_and_data import Images, Workload, workload_of
from accelbench.engines.pytorch.outputs import NetworkOutputs, in_other_mode, norm_of, uncompiled
from accelbench.engines.pytorch.precision import (
    STORED_DTYPES,
    Observer,
    check_normalises,
    new_tensors_in,
    stored_in,
)
from accelbench.engines.pytorch.ranks import RankReport, Ranks, differences, joined
from accelbench.engines.pytorch.weights import saved
from accelbench.engines.served import powers_up_to
from accelbench.measuring.checks import WEIGHTS
from accelbench.measuring.clock import NUM_INFER_EPOCHS, Clock, breakdown, has_time_for_phases
from accelbench.schema.cell import Cell, Span
from accelbench.schema.measurement import Measurement, Observed, Work

OF_DTYPES = re.compile("dtype|Double|Float|Half|scalar type")  # matches torch's errors about dtypes


def run(
    cell: Cell,
    data_folder: Path,
    weights: Path | None = None,
    requests: Path | None = None,
    kind: "type[Run] | None" = None,
) -> Measurement | None:
    """Runs `cell` in this process and returns its measurement.

    If several processes (ranks) run the cell, only the first rank returns the measurement. The others return None. The
    cell's device must be present. The process must not have run another cell.

    Writes the trained weights to the file `weights`, and the raw times of requests to the file `requests`. `kind` is
    the class of the run, for engines that derive from this engine.

    Raises UnsupportedError if the cell can't run here.
    """
    ranks = Ranks(cell.num_processes)
    backend = backend_for(cell.device, cell.devices, ranks)
    backend.begin(cell, ranks.num_here)
    allocators.restore_thresholds()
    with options.empty_cache() if cell.options.compile else nullcontext():
        cell_run = (kind or Run)(cell, data_folder, backend, ranks)
        measurement = cell_run.measure(requests)
    if measurement is None or weights is None:
        return measurement
    return saved(measurement, cell_run.network, weights)


class Run(NetworkOutputs):
    """The run of one cell in a plain loop."""

    ranks: Ranks
    feed: Feed
    test_feed: Feed

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend, ranks: Ranks) -> None:
        super().__init__(cell, data_folder, backend, ranks)
        self.workload = self.new_workload()
        self.feed = self.workload.feed
        if self.goal is not None:
            self.goal.begin(Span.build)
        # This comes before the start, because `build_s` excludes its imports.
        self.is_compiled = options.prepare_compiler(cell.options)
        self.build_started = time.perf_counter()
        network = self.workload.build()
        if self.trains:
            zoo.check_trainable(network, cell.model)
        check_normalises(network, cell)
        self.num_params = zoo.num_params(network)
        if cell.options.channels_last:
            self.check_layout()
        self.network = network = options.prepared(network, cell.options)
        if self.is_compiled:
            backend.count_compiles = compilations()
            network = options.compiled(network, cell.options)
        if self.is_compiled or backend.fused:
            self.serving_sizes = powers_up_to(cell.batch_size)
        self.is_plain = not self.is_compiled and ranks.num == 1 and not backend.fused
        self.in_network = network  # the network, wrapped by the compiler if there is one
        self.observer = Observer(uncompiled(self.network), self.workload.check_first)

    def new_workload(self) -> Workload:
        """Creates the workload, which builds the network and makes the batches of the cell."""
        return workload_of(self.cell, self.data_folder, self.backend, self.ranks)

    def run_steps(self) -> None:
        dtype = STORED_DTYPES[self.cell.precision]
        self._place()
        with nullcontext() if dtype == torch.float32 else new_tensors_in(dtype):
            self.begin(dtype)
            if self.goal is not None:
                self._train_to_goal(self.goal)
            elif self.fits and not self.trains:
                self._infer_epochs()
            elif self.fits:
                self.test_feed = self.workload.feed_of("test")
                super().run_steps()
            elif self.ranks.leads:
                try:
                    self.in_grad_mode(self._measure)
                except RuntimeError as error:
                    # If the network's code fails with new tensors in `dtype`, they are in fp32.
                    is_of_dtype = dtype != torch.float32 and OF_DTYPES.search(str(error)) is not None
                    if self.timing.num_steady_steps or not is_of_dtype:
                        raise
                    self.new_in_fp32 = True
                    self.backend.hold(torch.float32)
                    self.in_grad_mode(self._measure)
            else:
                step = self.new_step()
                with torch.set_grad_enabled(self.trains):
                    self.ranks.follow(step, self.backend.wait)
                self.last_result = step.result
        if self.trains and self.fits:
            self.note_end()

    def _place(self) -> None:
        """Copies the network to the device, and makes its optimiser."""
        backend, cell, optimizer = self.backend, self.cell, None
        self.ranks.join(backend.joined_by)
        network = backend.place(stored_in(self.in_network, cell.precision))
        if self.trains:
            optimizer = new_optimizer(cell.model, network)
            network = backend.in_parallel(network) if self.ranks.num > 1 else network
        else:
            network.eval()
        self.program = Program(
            network, self.workload.task, backend, cell.precision, optimizer, self.ranks.num
        )

    def begin(self, dtype: torch.dtype) -> None:
        """Begins the measurement, after the network was copied to the device. `dtype` is the dtype of new tensors."""
        self.build_s = time.perf_counter() - self.build_started
        self.backend.seed(self.ranks.seed(self.cell.seed))
        self.backend.hold(dtype)
        if self.trains:
            self.observations.training.names = list(trainable(self.network))
            self.observations.training.before = self.norms() if self.fits else {}
        if self.is_compiled:  # compiled code runs no hooks, so the plain network runs once with hooks
            with Counter() as counter:
                options.run_plain(self.network, InferStep(self.program), self.workload.example())
            self.observations.products = counter.products

    def new_step(self) -> InferStep:
        kind = InferStep
        if self.trains:
            kind = EpochStep if self.fits else TrainStep
        return kind(self.program, self.feed)

    def new_test_step(self) -> TestStep:
        return TestStep(self.program, self.test_feed)

    def measure_epoch(self, step: Any) -> None:
        super().measure_epoch(step)
        self.step, self.last_result = step, step.result

    def evaluate(self, step: Any) -> None:
        with self._evaluating():
            super().evaluate(step)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """A context for evaluations. In it, the network is in evaluation mode and gradients are off."""
        network = self.program.network
        modes = zoo.modes_of(network)
        network.eval()
        # gloo and torch_xla have no inference mode.
        with torch.no_grad() if self.backend.fused or self.ranks.num > 1 else torch.inference_mode():
            yield
        zoo.set_modes(network, modes)

    def _train_to_goal(self, goal: GoalRun) -> None:
        """Trains to the cell's target. An evaluation follows each interval of training; see `engines.goal`."""
        held_out = self.workload.feed_of(VALIDATION)
        program = self.program
        self.plan_goal(goal)
        batches = chain.from_iterable(repeat(self.feed, self.cell.epochs))
        while not goal.is_over:
            step = TrainStep(program, goal.interval_of(batches))
            goal.train(self, step)
            self.last_result = step.result
            with self._evaluating():
                goal.evaluate(self, TestStep(program, held_out), held_out.num_samples)
        self.test_goal(goal)

    def plan_goal(self, goal: GoalRun) -> None:
        """Plans the intervals of training from the order of the batches."""
        feed, workload = self.feed, self.workload
        assert isinstance(workload, Images), "the settings refuse other batches"
        assert not isinstance(feed, DrawnFeed), "random images have no epochs"
        goal.plan(feed.order)
        if workload.task.own_metric is not None:
            goal.own_metric = lambda step, num_samples: self.ranks.total(step.metric_sum) / num_samples

    def test_goal(self, goal: GoalRun) -> None:
        """Evaluates the trained weights on the test set."""
        tested = self.workload.feed_of("test")
        with self._evaluating():
            goal.test(self, TestStep(self.program, tested), tested.num_samples)

    def _infer_epochs(self) -> None:
        """Runs several epochs of inference.

        If an epoch fails because the network needs gradients, runs the whole epoch again in another mode of autograd.
        """
        for _ in range(NUM_INFER_EPOCHS):
            self.in_grad_mode(lambda: self.measure_epoch(self.new_step()))
        if self.ranks.leads:
            with self._grad_context():
                self.keep_last_output(self.step)

    def _measure(self) -> None:
        step = self.new_step()
        if isinstance(self.feed, DrawnFeed) and self.feed.varies:
            step.samples_of_last = self.feed.samples_of_last  # type: ignore[attr-defined]
        self.measure_window(step)
        if isinstance(self.workload, GenerateWorkload):
            self.generation = self.workload.generation(self.timing.num_timed_steps)
        self.runner(step).drive(self.after_window())
        self.ranks.begin(0)  # the other ranks stop
        # In training, copies the loss, because further steps of a CUDA graph would overwrite it.
        self.last_result = step.result.clone() if self.trains else step.result
        self.keep_last_output(step)

    def after_window(self) -> Clock[None]:
        """Records the weights after the timed window. Then runs more steps, and times their phases and operators."""
        if self.trains:
            with self.observations.checking(WEIGHTS):
                self.note_end()
        if has_time_for_phases(self.cell, self.limits, self.timing):
            self.breakdown = yield from breakdown(self.backend, self.cell.breakdown_s)
            self.operators = yield from busiest(self.backend)

    def further_step(self) -> InferStep:
        """Makes a step with the same network. Threads can share the network, because only steps store batches."""
        return InferStep(self.program)

    def outcome(self, step: EpochStep | TestStep, num_samples: int) -> tuple[float | None, float | None]:
        """Returns the mean loss and the accuracy over all processes. For this, adds up the sums of the processes."""
        loss = self.checked_loss(self.ranks.total(step.loss_sum) / num_samples)
        return loss, None if step.task.reconstructs else self.ranks.total(step.num_right) / num_samples

    def keep_last_output(self, step: InferStep) -> None:
        """Stores an output of the network for the output check, after the measurement.

        Only the first process calls this method. In training, stores an output only if the network runs
        operator by operator in one process (`is_plain`).
        """
        self.step = step
        if not self.trains:
            self.observations.in_training_mode = in_other_mode(self.network, training=False)
        if not self.trains or self.is_plain:
            self.keep_output()

    def _report(self) -> RankReport:
        backend = self.backend
        loss = self.last_result.item() if self.trains else None
        threads = None if backend.torch_type == "xla" else torch.get_num_threads() * self.cell.num_instances
        tokens = self.workload.tokens_per_sample()
        observed = self.observer.observed(
            self, num_devices=backend.num_devices, threads=threads, tokens_per_sample=tokens, loss=loss
        )
        weights = (
            str([*map(norm_of, self.network.parameters())]) if self.trains and self.ranks.num > 1 else None
        )
        return RankReport(observed, self.resources, weights)

    def observe(self) -> Observed | None:
        """Combines the observations of all ranks (processes). Returns None in all ranks except the first."""
        reports = self.ranks.gather(self._report())
        if not self.ranks.leads:
            return None
        observed, self.resources = joined(reports)
        loss = None if observed.loss is None else self.checked_loss(observed.loss)
        self.defects += differences(reports)
        return replace(observed, loss=loss, work=self.work_of_step(self._work))

    def _work(self) -> Work:
        """Counts the operations of a step. Must run after the measurement, because counting needs memory."""
        if self.watched_work is not None:
            return self.watched_work
        of_rank = count(self.cell, self.network, self.workload.task, self.workload.example())
        return of_rank.of_devices(self.ranks.num)

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        if isinstance(self.feed, DrawnFeed) and self.feed.copies:
            yield "the user's code changes its batch, so each step gets a new copy of the batch"
        elif pins(self.cell, self.backend):
            yield "input copied from pinned memory"

    def warnings(self) -> Iterator[str]:
        if self.is_compiled:
            yield from options.compile_warnings(self.cell.options)
