"""The PyTorch engine: one cell -> one measurement, in a loop that runs the steps one after another."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

import torch

from accelbench.data.order import VALIDATION
from accelbench.devices import malloc_thresholds
from accelbench.engines.goal import GoalRun
from accelbench.engines.pytorch import options, training, zoo
from accelbench.engines.pytorch.backends import Backend, Compilations, backend_for
from accelbench.engines.pytorch.feed import DrawnFeed, Feed, pins
from accelbench.engines.pytorch.flops import (
    OF_GENERATION,
    OF_THREADS,
    busiest,
    count,
    not_counted,
    run_counted,
    run_hollow,
    watched,
)
from accelbench.engines.pytorch.generate import GenerateWorkload
from accelbench.engines.pytorch.global_state import new_tensors_in, seed_generators
from accelbench.engines.pytorch.module import (
    EpochStep,
    ImageTask,
    InferStep,
    Program,
    TestStep,
    TrainStep,
    new_optimizer,
)
from accelbench.engines.pytorch.network_and_data import Images, Workload, workload_of
from accelbench.engines.pytorch.outputs import NetworkOutputs
from accelbench.engines.pytorch.precision import (
    STORED_DTYPES,
    Observer,
    cast_module,
    cast_tensor,
    check_normalises,
    stored_in,
)
from accelbench.engines.pytorch.ranks import Ranks, Seen, differences, digest, joined
from accelbench.engines.pytorch.structure import copied, mapped
from accelbench.engines.pytorch.weights import saved
from accelbench.engines.served import powers_up_to
from accelbench.errors import UnsupportedError, UserError
from accelbench.measuring.checks import WEIGHTS, in_time
from accelbench.measuring.runner import Clock
from accelbench.measuring.schedule import NUM_INFER_EPOCHS, breakdown
from accelbench.schema.cell import Cell, Options
from accelbench.schema.measurement import Measurement, Observed, Work
from accelbench.schema.vocab import Device, Library, Mode, Precision, Span

NUM_RERUN, MAX_RERUN_S = 10, 5.0  # steps, and seconds, in which a loss that is not finite is computed again
OF_DTYPES = re.compile("dtype|Double|Float|Half|scalar type")  # in an error of torch about formats
# Mistakes in names, imports and arguments: no device and no precision mends them.
EVERYWHERE = (ImportError, SyntaxError, NameError, AttributeError, TypeError)


def run(
    cell: Cell,
    data_folder: Path,
    weights: Path | None = None,
    work: Work | None = None,
    requests: Path | None = None,
    kind: "type[Run] | None" = None,
) -> Measurement | None:
    """Runs `cell`, whose device must be present, in this process, which must have run no other cell.

    The file `weights` gets the trained weights, `requests` the raw times of requests. `work` is that of one step, if
    already counted. Of several ranks the first has the measurement. An UnsupportedError says why the cell can't run.
    `kind` is another engine's kind of run.
    """
    ranks = Ranks(cell.num_processes)
    backend = backend_for(cell.device, cell.devices, ranks)
    backend.begin(cell, ranks.num_here)
    malloc_thresholds.restore()
    with options.empty_cache() if cell.options.compile else nullcontext():
        cell_run = (kind or Run)(cell, data_folder, backend, ranks)
        measurement = cell_run.measure(work, requests)
    if measurement is None or weights is None:
        return measurement
    return saved(measurement, cell_run.network, weights)


def check(cell: Cell, data_folder: Path) -> Work | None:
    """Runs a batch through the cell's network, in training also through the loss and back; returns that step's work.

    First without contents, which computes nothing, but for inference on the CPU. A failure there is no verdict yet,
    since a network may need contents: what fails on the CPU in fp32 too fails. Of a cell that runs elsewhere, or in
    another precision, only a mistake that is one everywhere fails: one that accelbench finds itself, and `EVERYWHERE`.
    """
    if cell.mode == Mode.generate:  # of as many positions
        generate = cell.generate
        num = generate.prompt_tokens + generate.new_tokens
        cell = replace(cell, generate=replace(generate, prompt_tokens=num - 2, new_tokens=2))
    on_cpu = replace(cell, device=Device.cpu, devices=1, precision=Precision.fp32, options=Options())
    # A step of inference takes less time there than the imports that the meta device needs.
    devices = ("cpu",) if (cell.device, cell.mode) == (Device.cpu, Mode.infer) else ("meta", "cpu")
    for device in devices:
        try:
            return _run_once(on_cpu, data_folder, torch.device(device))
        except (UserError, UnsupportedError):
            raise
        except Exception as error:
            if device == "meta":
                continue
            if isinstance(error, EVERYWHERE) or (cell.device, cell.precision) == (Device.cpu, Precision.fp32):
                raise
    return None


def _run_once(cell: Cell, data_folder: Path, device: torch.device) -> Work:
    workload = workload_of(cell, data_folder, Backend(), Ranks(1))
    seed_generators(cell.seed)
    with device:
        network = workload.build()
    batch = mapped(next(iter(workload.feed)), lambda tensor: tensor.to(device))
    try:
        if cell.mode == Mode.train:
            zoo.check_trainable(network, cell.model)
        run = run_hollow if device.type == "meta" else run_counted
        output, work = run(cell, network, workload.task, batch)
        workload.check_first(output)
    except Exception as error:
        if isinstance(workload, Images) and cell.model.library == Library.custom:
            shape = tuple(batch[0].shape)
            error.add_note(f"its input is images of shape {shape}: model.batch names a function that makes others")
        raise
    return Work(uncounted=[OF_GENERATION]) if cell.mode == Mode.generate else work


def count_step(cell: Cell) -> Work:
    """The work of one step of `cell`, an fp32 cell on the CPU whose images are random.

    In training its network is built without contents, which takes a moment.
    """
    model = cell.model
    if model.library == Library.transformers:
        workload = workload_of(cell, Path(), Backend(), Ranks(1))
        with torch.device("meta"):
            network = workload.build()
        return count(cell, network, workload.task, workload.example())
    task = ImageTask(torch.float32, reconstructs=model.is_own("autoencoder"))
    if cell.mode == Mode.infer:
        return _extrapolated(cell, task)
    with torch.device("meta"):
        network = zoo.build(model, model.input_shape, model.num_classes)
        images = torch.empty(cell.batch_size, *model.input_shape)
        batch = images, torch.empty(cell.batch_size, dtype=torch.int64)
    return count(cell, network, task, batch)


def _extrapolated(cell: Cell, task: ImageTask) -> Work:
    """The work of a step of inference, from real ones on one and on two images.

    Tensors without contents import torch._dynamo and sympy, which takes longer than to compute these.
    """
    shape = cell.model.input_shape
    works = []
    try:
        network = zoo.build(cell.model, shape, cell.model.num_classes)
        for size in (1, 2):
            _, work = run_counted(cell, network, task, (torch.rand(size, *shape),))
            works.append(work)
    except Exception as error:  # a network may take no single image
        return not_counted(error)
    one, two = works
    further = cell.batch_size - 2
    if one.flops is None or two.flops is None or one.bytes is None or two.bytes is None:
        return two
    # of a further image
    flops = two.flops - one.flops
    moved = two.bytes - one.bytes
    return replace(two, flops=two.flops + further * flops, bytes=two.bytes + further * moved)


class Run(NetworkOutputs):
    """One cell's run."""

    ranks: Ranks
    feed: Feed
    test_feed: Feed

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend, ranks: Ranks) -> None:
        super().__init__(cell, data_folder, backend, ranks)
        self.workload = self.new_workload()
        self.feed = self.workload.feed
        if self.goal is not None:
            self.goal.begin(Span.build)
        self.is_compiled = options.prepare_compiler(cell.options)  # its imports are no part of build_s
        self.build_started = time.perf_counter()
        seed_generators(cell.seed)
        network = self.workload.build()
        if self.trains:
            zoo.check_trainable(network, cell.model)
        check_normalises(network, cell)
        self.num_params = zoo.num_params(network)
        if cell.options.channels_last:
            self.check_layout()
        self.network = network = options.prepared(network, cell.options)
        if self.is_compiled:
            backend.count_compiles = Compilations()
            network = options.compiled(network, cell.options)
        if self.is_compiled or backend.fused:
            self.serving_sizes = powers_up_to(cell.batch_size)
        self.is_plain = not self.is_compiled and ranks.num == 1 and not backend.fused
        self.in_network = network  # with what compiles it
        self.observer = Observer(self.plain_network(), self.workload.check_first)

    def new_workload(self) -> Workload:
        """The network and the batches of the cell."""
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
                self._measure_with(dtype)
            else:
                self._follow(self.new_step())
        if self.trains and self.fits:
            self.note_end()

    def _measure_with(self, dtype: torch.dtype) -> None:
        """Measures with `dtype` for new tensors, or with fp32, as in a plain loop, if the network's code needs that."""
        try:
            self.in_grad_mode(self._measure)
        except RuntimeError as error:
            if dtype == torch.float32 or self.timing.num_steady_steps or not OF_DTYPES.search(str(error)):
                raise
            self.new_in_fp32 = True
            torch.set_default_dtype(torch.float32)
            self.backend.hold(torch.float32)
            self.in_grad_mode(self._measure)

    def _place(self) -> None:
        """Puts the network onto the device, with its optimiser."""
        backend, cell, optimizer = self.backend, self.cell, None
        self.ranks.join(backend.joined_by)
        network = backend.place(stored_in(self.in_network, cell.precision))
        if self.trains:
            optimizer = new_optimizer(cell.model, list(training.trainable(network).values()))
            network = backend.in_parallel(network) if self.ranks.num > 1 else network
        else:
            network.eval()
        self.program = Program(network, self.workload.task, backend, cell.precision, optimizer, self.ranks.num)

    def begin(self, dtype: torch.dtype) -> None:
        """Begins with what is measured, with `dtype` for new tensors: the model and the optimiser are on the device."""
        self.build_s = time.perf_counter() - self.build_started
        self.backend.seed(self.ranks.seed(self.cell.seed))
        self.backend.hold(dtype)
        if self.trains:
            self.trained = training.TrainedNetwork(self.network, self.seen.training)
            self.seen.training.before = self.trained.states() if self.fits else {}
        if self.is_compiled:  # compiled code runs no hooks: let them see the plain network first
            with watched(self.seen.products):
                options.run_plain(self.network, InferStep(self.program, iter(())), self.workload.example())

    def new_step(self) -> InferStep:
        kind = InferStep
        if self.trains:
            kind = EpochStep if self.fits else TrainStep
        return kind(self.program, iter(self.feed))

    def new_test_step(self) -> TestStep:
        return TestStep(self.program, iter(self.test_feed))

    def measure_epoch(self, step: Any) -> None:
        super().measure_epoch(step)
        self.step, self.last_result = step, step.result

    def evaluate(self, step: Any) -> None:
        with self._evaluating():
            super().evaluate(step)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """In evaluation mode, without gradients."""
        network = self.program.network
        modes = training.modes_of(self.program.network)
        network.eval()
        # gloo and torch_xla have no inference mode.
        with torch.no_grad() if self.backend.fused or self.ranks.num > 1 else torch.inference_mode():
            yield
        training.set_modes(network, modes)

    def _train_to_goal(self, goal: GoalRun) -> None:
        """Trains an interval after the other, and evaluates after each; see `engines.goal`."""
        held_out = self.workload.feed_of(VALIDATION)
        program = self.program
        self.plan_goal(goal)
        batches = chain.from_iterable(repeat(self.feed, self.cell.epochs))
        while not goal.is_over:
            step = TrainStep(program, goal.interval_of(batches))
            goal.train(self, step)
            self.last_result = step.result
            with self._evaluating():
                goal.evaluate(self, TestStep(program, iter(held_out)), held_out.num_samples)
        self.test_goal(goal)

    def plan_goal(self, goal: GoalRun) -> None:
        """Plans the intervals over the batches that there are."""
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
            goal.test(self, TestStep(self.program, iter(tested)), tested.num_samples)

    def _follow(self, step: InferStep) -> None:
        with torch.set_grad_enabled(self.trains):
            self.ranks.follow(step, self.backend.wait)
        self.last_result = step.result

    def _infer_epochs(self) -> None:
        """Over all batches each time, also where the network ran in no other mode before."""
        for _ in range(NUM_INFER_EPOCHS):
            self.in_grad_mode(self._infer_epoch)
        if self.ranks.leads:
            with self._grad_context():
                self.keep_last_output(self.step)

    def _infer_epoch(self) -> None:
        self.measure_epoch(self.new_step())

    def _measure(self) -> None:
        step = self.new_step()
        if isinstance(self.feed, DrawnFeed) and self.feed.varies:
            step.samples_of_last = self.feed.samples_of_last  # type: ignore[attr-defined]
        self.measure_window(step)
        if isinstance(self.workload, GenerateWorkload):
            self.generation = self.workload.generation(self.timing.num_kept)
        self.runner(step).drive(self.after_window())
        self.ranks.begin(0)  # the others follow no more
        # In training a copy of the loss, which further steps of a CUDA graph overwrite.
        self.last_result = step.result.clone() if self.trains else step.result
        self.keep_last_output(step)

    def after_window(self) -> Clock[None]:
        """What the weights became, the phases of further steps, and their operators."""
        if self.trains:
            with self.seen.checking(WEIGHTS):
                self.note_end()
        if self.limits.has_time_for_phases(self.timing.step_s):
            self.breakdown = yield from breakdown(self.backend, self.cell.breakdown_s)
            self.operators = yield from busiest(self.backend)

    def note_end(self) -> None:
        """Notes what became of the weights, and what they were trained with."""
        self.trained.note_end([self.program.optimizer])

    def further_step(self) -> InferStep:
        """The network itself: it keeps nothing of a batch."""
        return InferStep(self.program, iter(()))

    def outcome(self, step: EpochStep | TestStep, num_samples: int) -> tuple[float | None, float | None]:
        """From the sums that the step has kept on each rank's device."""
        loss = self.checked_loss(self.ranks.total(step.loss_sum) / num_samples)
        return loss, None if step.task.reconstructs else self.ranks.total(step.num_right) / num_samples

    def keep_last_output(self, step: InferStep) -> None:
        """Keeps an output in the first rank, once everything was measured; of training only if it costs little."""
        self.step = step
        if not self.trains:
            self.seen.modes = training.training_in_inference(self.network)
        if not self.trains or self.is_plain:
            self.keep_output()

    def _seen(self) -> Seen:
        assert self.resources is not None
        backend = self.backend
        loss = self.last_result.item() if self.trains else None
        threads = None if backend.torch_type == "xla" else torch.get_num_threads() * self.cell.num_instances
        tokens = self.workload.tokens_per_sample()
        observed = self.observer.observed(
            self, num_devices=backend.num_devices, threads=threads, tokens_per_sample=tokens, loss=loss
        )
        weights = digest(self.network) if self.trains and self.ranks.num > 1 else None
        return Seen(observed, self.resources, weights)

    def observe(self) -> Observed | None:
        """What all ranks observed, in the first one."""
        seen = self.ranks.gather(self._seen())
        if not self.ranks.leads:
            return None
        observed, self.resources = joined(seen)
        loss = None if observed.loss is None else self.checked_loss(observed.loss)
        self.defects += differences(seen)
        if self.diverged is not None and self.goal is None and self._diverges_by_rounding():
            self.defects.append(f"{self.diverged}, and in the first steps it is finite in fp32")
        return replace(observed, loss=loss, work=self.work_of_step(self._work))

    def _work(self) -> Work:
        """What one step has to do, counted after everything was measured: counting takes memory."""
        if self.watched_work is not None:
            return self.watched_work
        if self.seen.products.in_other_threads:
            return Work(uncounted=[OF_THREADS])
        of_rank = count(self.cell, self.network, self.workload.task, self.workload.example())
        return of_rank.of_devices(self.ranks.num)

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        yield from options.compile_notes(self.cell.options)
        if isinstance(self.feed, DrawnFeed) and self.feed.copies:
            yield "the code changes its batch: each step gets a copy of the batch"
        elif pins(self.cell, self.backend):
            yield "input copied from pinned memory"

    def _diverges_by_rounding(self) -> bool:
        """Whether the first steps of new networks give a finite loss in fp32, and none in the cell's precision."""
        precision = self.cell.precision
        if precision not in (Precision.fp16, Precision.bf16) or self.ranks.num > 1:
            return False
        try:
            if in_time(lambda: self._is_finite(precision), MAX_RERUN_S):
                return False
            return in_time(lambda: self._is_finite(Precision.fp32), MAX_RERUN_S)
        except Exception:  # torch may not train in that format on the CPU, or not in time
            return False

    def _is_finite(self, precision: Precision) -> bool:
        """Whether the losses of the first steps of a new network on the CPU are finite."""
        dtype = STORED_DTYPES[precision]
        with new_tensors_in(torch.float32):
            network = cast_module(self.workload.build(), dtype).train()
        optimizer = new_optimizer(self.cell.model, list(training.trainable(network).values()))
        task = self.workload.task_in(dtype)
        for batch in islice(iter(self.feed), NUM_RERUN):
            optimizer.zero_grad()
            _, loss = task.train(network, mapped(copied(batch), lambda tensor: cast_tensor(tensor.cpu(), dtype)))
            if not torch.isfinite(loss):
                return False
            loss.backward()
            optimizer.step()
        return True

    def warnings(self) -> Iterator[str]:
        if isinstance(self.feed, DrawnFeed) and self.feed.repeats:
            yield "data.pipeline=fresh: its batch function returned the same batch again"
        if self.is_compiled:
            yield from options.compile_warnings(self.cell.options)
