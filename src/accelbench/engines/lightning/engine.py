"""The Lightning engine: one cell -> one measurement, through Lightning's Trainer."""

import dataclasses
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytorch_lightning as pl
import torch

from accelbench.data.arrays import load_split
from accelbench.data.manifest import read_counts
from accelbench.devices.memory import high_water_bytes
from accelbench.devices.registry import look
from accelbench.engines.lightning import agreement, options, zoo
from accelbench.engines.lightning.backends import Backend, backend_for
from accelbench.engines.lightning.busiest import busiest
from accelbench.engines.lightning.feed import Feed, Passes, RandomFeed
from accelbench.engines.lightning.module import BenchModule, EpochStep, InferStep, Task, TestStep, TrainStep
from accelbench.engines.lightning.precision import DTYPES, MIXED, Observer
from accelbench.engines.lightning.ranks import Ranks, Seen, differences, digest, joined
from accelbench.engines.lightning.sources import feed_of, input_of
from accelbench.engines.lightning.trainer import hush_lightning, set_threads, trainer_for
from accelbench.engines.lightning.work import count
from accelbench.measuring import clock
from accelbench.measuring.breakdown import MIN_STEPS, measure_breakdown
from accelbench.measuring.epochs import NUM_INFER_PASSES, measure_pass, time_pass
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Breakdown, Epoch, Evaluation, Measurement, Operator
from accelbench.schema.vocab import Device, Mode, Pipeline, Precision, Protocol
from accelbench.schema.work import Work

# The share of a cell's time limit that the least breakdown may take; without it a slow step would risk its record.
MAX_BREAKDOWN = 0.1


def run(cell: Cell, data_folder: Path) -> Measurement | None:
    """Runs `cell` in this process, which must have run no other.

    Args:
        cell: what to run; its device must be there.
        data_folder: where the data set's arrays are.

    Returns:
        What was measured; None where this process is not the first of several, and followed it.

    Raises:
        UnsupportedError: the cell can't run, with the reason.
    """
    hush_lightning()
    ranks = Ranks(cell.num_processes)
    backend = backend_for(cell.device, cell.devices, ranks)
    set_threads(cell, backend, ranks.num_here)
    backend.prepare(allow_tf32=cell.precision == Precision.tf32)
    with options.empty_cache(cell.options):
        return _Run(cell, data_folder, backend, ranks).measure()


@dataclass(frozen=True)
class Resources:
    """What the measured steps took: compilations, operators on the CPU, and memory on the device and on the host."""

    compiles: clock.Compiles
    fallbacks: list[str] | None
    peak_device_bytes: int | None
    peak_host_bytes: int | None


class _Run:
    """One cell's run: what its parts share while Lightning calls back."""

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend, ranks: Ranks) -> None:
        self.cell = cell
        self.backend = backend
        self.ranks = ranks
        self.data_folder = data_folder
        dtype = torch.float32 if cell.precision in MIXED else DTYPES[cell.precision]
        self.task = Task(
            dtype,
            cell.data.augment,
            reconstructs=cell.model.is_own("autoencoder"),
            channels_last=cell.options.channels_last,
        )
        self.feed = self._feed("train" if cell.mode == Mode.train else "test")
        self.batch_size = cell.batch_size // ranks.num  # this device's share
        self.shape, self.num_classes = input_of(cell, data_folder)
        self.compiler = options.compiler_for(cell.options)  # imports what compiles
        start = time.perf_counter()
        pl.seed_everything(cell.seed, verbose=False)
        network = zoo.build(cell.model, self.shape, self.num_classes)
        self.num_params = zoo.num_params(network)
        network = options.prepared(network, cell.options, self.shape)
        self.network = network
        if self.compiler is not None:
            backend.count_compiles = self.compiler.compiles
            network = self.compiler.compiled(network)
        self.module = BenchModule(network, cell.model, self.task, backend)
        self.module.num_parts = ranks.num
        self.trainer = trainer_for(cell, backend, ranks)
        self.observer = Observer(self.network)
        self.first_output = self.network.register_forward_hook(self._check_output)
        self.build_started = start
        self.build_s = math.nan
        self.timing = clock.Timing()
        self.breakdown: Breakdown | None = None
        self.operators: list[Operator] = []
        self.epochs: list[Epoch] = []
        self.evaluation: Evaluation | None = None
        self.output: torch.Tensor | None = None  # of a few samples
        self.defects: list[str] = []
        self.resources: Resources | None = None
        self.last_result: torch.Tensor

    def measure(self) -> Measurement | None:
        """Trains or infers, then collects."""
        fits = self.cell.protocol == Protocol.fit
        self.module.conduct = self._whole_pass if fits else self._window
        self.module.train_step = EpochStep if fits else TrainStep
        if self.cell.mode == Mode.train:
            if fits:
                tested = self._feed("test")
                self.module.evaluate = lambda step: self._evaluate(step, tested.num_samples)
            self.trainer.fit(self.module, Passes(self.feed), Passes(tested) if fits else None)
        else:
            for _ in range(NUM_INFER_PASSES if fits else 1):
                self.trainer.predict(self.module, Passes(self.feed), return_predictions=False)
        self._note_resources()  # before looking at the result, which may compile too
        seen = self.ranks.gather(self._seen())
        return self._collect(seen) if self.ranks.leads else None

    def _feed(self, split: str) -> Feed:
        return feed_of(self.cell, split, self.data_folder, self.task.dtype, self.backend, self.ranks.part)

    def _wait(self) -> None:
        """Returns when every device is done."""
        self.backend.wait()
        self.ranks.end()

    def _check_output(self, network: torch.nn.Module, inputs: object, output: object) -> None:
        self.first_output.remove()  # looked at once
        if not self.task.reconstructs:
            zoo.check_output(output, self.cell.model, self.num_classes if self.cell.mode == Mode.train else None)

    def _note_built(self, step: InferStep) -> None:
        if math.isnan(self.build_s):  # Lightning hands over the first pass: model and optimiser are on the device
            self.build_s = time.perf_counter() - self.build_started
            self.backend.seed(self.ranks.join(self.cell.seed))
            if self.compiler is not None:  # compiled code runs no hooks: they see what is compiled, before it is
                options.run_plain(self.network, step, self._first_images())

    def _window(self, step: InferStep) -> None:
        self._note_built(step)
        if not self.ranks.leads:
            self.ranks.follow(step, self.backend.wait)
            self.last_result = step.result
            return
        wait, compiles, team = self.backend.wait, self.backend.compiles, self.ranks
        if self.cell.protocol == Protocol.steps:
            self.timing = clock.measure_steps(step, wait, self.cell.warmup, self.cell.steps, compiles, team=team)
        else:
            self.timing = clock.measure(step, wait, self.cell.window, compiles, team=team)
        most_s = MAX_BREAKDOWN * self.cell.timeout_s
        if self.cell.breakdown_s and 2 * MIN_STEPS * median(self.timing.latency_s) <= most_s:
            self.breakdown = measure_breakdown(step, self.backend, self.cell.breakdown_s, team=team)
            self.operators = busiest(step, self.backend, team)
        self.ranks.dismiss()
        if step.on_host or self.cell.data.pipeline == Pipeline.device:
            self.timing.copy_in_s = []
        if step.on_host or self.cell.mode == Mode.train:
            self.timing.copy_out_s = []
        self.last_result = step.result
        self._keep_output(step)

    def _whole_pass(self, step: InferStep) -> None:
        self._note_built(step)
        self.ranks.end()  # so that all begin together
        began_boot_s, seconds = measure_pass(self.timing, step, self._wait, self.backend.compiles)
        num_samples = self.feed.num_samples
        loss = accuracy = None
        if isinstance(step, EpochStep):
            loss = _finite(self.ranks.total(step.loss_sum) / num_samples)
            accuracy = None if step.task.reconstructs else self.ranks.total(step.num_right) / num_samples
        self.epochs.append(
            Epoch(seconds=seconds, num_samples=num_samples, began_boot_s=began_boot_s, loss=loss, accuracy=accuracy)
        )
        self.last_result = step.result
        if len(self.epochs) == NUM_INFER_PASSES:
            self._keep_output(step)

    def _evaluate(self, step: TestStep, num_samples: int) -> None:
        """The test set, after an epoch."""
        self.ranks.end()
        seconds = time_pass(step, self._wait)
        self.evaluation = Evaluation(
            num_samples=num_samples,
            seconds=seconds,
            loss=_finite(self.ranks.total(step.loss_sum) / num_samples),
            accuracy=None if step.task.reconstructs else self.ranks.total(step.num_right) / num_samples,
        )
        self.epochs[-1] = dataclasses.replace(self.epochs[-1], evaluation=self.evaluation)

    def _first_images(self) -> torch.Tensor:
        """A few samples' images, as the feed gives them."""
        if isinstance(self.feed, RandomFeed):
            return self.feed.batches[0][0].cpu()[: agreement.NUM_SAMPLES]
        return torch.from_numpy(load_split(self.data_folder, "test").images[: agreement.NUM_SAMPLES])

    def _keep_output(self, step: InferStep) -> None:
        """Keeps a few samples' output, to compare it: after all was measured, and the memory noted."""
        is_reference = (self.cell.device, self.cell.precision) == (Device.cpu, Precision.fp32)
        if (is_reference and not self.cell.options.enabled) or isinstance(step, TrainStep):
            return
        self._note_resources()
        images = self._first_images()
        # A batch of another size would be compiled anew, and what was measured would not be what is compared.
        num = self.batch_size if self.backend.fixed_shapes or self.compiler else len(images)
        if self.cell.options.cuda_graphs:  # a graph writes its result to the same place again
            self.last_result = self.last_result.clone()
        batch = step.copy_in((images[torch.arange(num) % len(images)],))
        self.output = step.compute(batch).cpu().double()[: len(images)]
        if not torch.isfinite(self.output).all():
            self.defects.append("the output is not finite")

    def _note_resources(self) -> None:
        """What the measured steps took, before anything else is run."""
        if self.resources is None:
            backend = self.backend
            peak_bytes = backend.peak_memory_bytes(), high_water_bytes()
            self.resources = Resources(backend.compiles(), backend.fallbacks(), *peak_bytes)

    def _seen(self) -> Seen:
        """What this rank has to tell."""
        assert self.resources is not None
        trains, result = self.cell.mode == Mode.train, self.last_result.float()
        place = self.observer.place()
        return Seen(
            device=self.backend.ran_on(place.type),
            place=self.backend.place(place, self.ranks.rank),
            device_name=self.backend.device_name() or look(self.cell.device).name,
            precision=self.observer.precision(),
            num_devices=self.backend.num_devices(),
            peak_device_bytes=self.resources.peak_device_bytes,
            peak_host_bytes=self.resources.peak_host_bytes,
            finite=bool(torch.isfinite(result).all()),
            loss=result.item() if trains else None,
            weights=digest(self.network) if trains and self.ranks.num > 1 else None,
        )

    def _collect(self, seen: list[Seen]) -> Measurement:
        """What was seen, as a measurement."""
        assert self.resources is not None
        num_compiles, compile_s = self.resources.compiles
        trains = self.cell.mode == Mode.train
        if not all(each.finite for each in seen) or (self.evaluation is not None and self.evaluation.loss is None):
            self.defects = self.defects or [f"the {'loss' if trains else 'output'} is not finite"]
        counts = read_counts(self.data_folder)
        recompiled = self.timing.compiled_in_steady_state
        error = None
        if self.output is not None:
            error = agreement.output_error(self.output, self.cell, self._first_images(), self.shape, self.num_classes)
        return Measurement(
            **joined(seen),
            cudnn_benchmark=self.backend.cudnn_benchmark(),
            threads=None if self.backend.torch_type == "xla" else torch.get_num_threads(),
            num_params=self.num_params,
            num_train_samples=counts.get("train"),
            num_test_samples=counts.get("test"),
            build_s=self.build_s,
            compile_s=compile_s if num_compiles else None,
            num_compiles=num_compiles if num_compiles else None,
            fallbacks=self.resources.fallbacks,
            breakdown=self.breakdown,
            operators=self.operators,
            work=self._work(),
            epochs=self.epochs,
            evaluation=self.evaluation,
            output_error=error,
            warnings=list(self._warnings(recompiled, error)),
            defects=[*self.defects, *differences(seen)],
            **self.timing.measured(),
        )

    def _work(self) -> Work:
        """What one step has to do, counted once all was measured: it takes memory of its own."""
        images = self._first_images()
        like = torch.empty((self.batch_size, *images.shape[1:]), dtype=images.dtype, device="meta")
        labels = torch.empty(self.batch_size, dtype=torch.int64, device="meta")
        module = BenchModule(self.network, self.cell.model, self.task, self.backend)
        each = count(module, (like, labels), self.cell.precision, train=self.cell.mode == Mode.train)
        return each.of_devices(self.ranks.num)

    def _warnings(self, recompiled: int, output_error: float | None) -> Iterator[str]:
        if self.compiler is not None:
            yield from self.compiler.warnings()
        if recompiled:
            yield f"compiled {recompiled} times in the steady state"
        if self.resources is not None and self.resources.fallbacks:
            yield f"ran on the CPU instead: {', '.join(self.resources.fallbacks)}"
        if output_error is not None and output_error > agreement.limit(self.cell.precision):
            yield f"the output differs from fp32's on the CPU by {output_error:.1%}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
