"""The Keras engine: one cell -> one measurement, through the functions that Keras' own `fit` and `predict` call."""

import dataclasses
import math
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import Arrays, load_split
from accelbench.data.manifest import read_counts
from accelbench.data.order import Order
from accelbench.devices.memory import high_water_bytes
from accelbench.devices.registry import look
from accelbench.engines.keras import agreement, networks, task, work
from accelbench.engines.keras.backends import Backend, Execute, backend_for
from accelbench.engines.keras.feed import ArrayFeed, Feed, RandomFeed
from accelbench.engines.keras.precision import Observer
from accelbench.engines.keras.sources import feed_of, input_of
from accelbench.engines.keras.steps import ExecutionStep
from accelbench.measuring import clock
from accelbench.measuring.epochs import NUM_INFER_PASSES, measure_pass, time_pass
from accelbench.measuring.output_error import NUM_SAMPLES, limit, relative_error
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Epoch, Evaluation, Measurement
from accelbench.schema.vocab import RANDOM, Device, Mode, Pipeline, Precision, Protocol

FLOATS = {Precision.fp16: "float16", Precision.bf16: "bfloat16", Precision.fp64: "float64"}  # else float32


def run(cell: Cell, data_folder: Path) -> Measurement:
    """Runs `cell` in this process, which must have run no other.

    Args:
        cell: what to run.
        data_folder: where the data set's arrays are.

    Raises:
        UnsupportedError: the cell can't run, with the reason.
    """
    return _Run(cell, data_folder, backend_for(cell)).measure()


@dataclasses.dataclass(frozen=True)
class Resources:
    """What the measured steps took: compilations, and memory on the accelerator and on the host."""

    compiles: clock.Compiles
    peak_device_bytes: int | None
    peak_host_bytes: int | None


class _Run:
    """One cell's run: what its parts share."""

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        assert cell.keras is not None
        self.cell = cell
        self.data_folder = data_folder
        self.backend = backend
        self.trains, self.fits = cell.mode == Mode.train, cell.protocol == Protocol.fit
        floats = FLOATS.get(cell.precision, "float32")
        self.feed = feed_of(cell, "train" if self.trains else "test", data_folder, floats)
        self.shape, self.num_classes = input_of(cell, data_folder)
        self.is_reference = (cell.device, cell.precision) == (
            Device.cpu,
            Precision.fp32,
        ) and not cell.keras.non_defaults
        self.samples_per_execution = cell.batch_size * cell.keras.steps_per_execution
        start = time.perf_counter()
        with backend.scope():
            self.network = network = agreement.network_of(cell, self.shape, self.num_classes)
            dtype = floats if cell.data.name == RANDOM else "uint8"
            self.model = task.model_of(network, dtype)
            self.model.compile(
                optimizer=task.optimizer_of(cell.model) if self.trains else None,
                loss=task.loss_of(cell.model, network, dtype),
                metrics=task.metrics_of(cell.model, network) if self.fits and self.trains else None,
                jit_compile=cell.keras.jit_compile,
                steps_per_execution=cell.keras.steps_per_execution,
            )
            if self.trains:
                self.model.optimizer.build(self.model.trainable_variables)
        self.backend.wait()
        self.build_s = time.perf_counter() - start
        self.num_params = networks.num_params(network)
        self.observer = Observer(network)
        self.timing = clock.Timing()
        self.epochs: list[Epoch] = []
        self.output: NDArray[Any] | None = None  # of a few samples
        self.loss: float | None = None
        self.defects: list[str] = []
        self.resources: Resources

    def measure(self) -> Measurement:
        """Trains or infers, then collects."""
        execute = self.backend.trainer(self.model) if self.trains else self.backend.predictor(self.model)
        step = None
        if not self.fits:
            step = self._window(execute)
        elif self.trains:
            self._train_epochs(execute)
        else:
            for _ in range(NUM_INFER_PASSES):
                self.epochs.append(self._whole_pass(execute))
        # Before anything else is run.
        compiles = self.backend.compiles()
        self.resources = Resources(compiles, self.backend.peak_memory_bytes(), high_water_bytes())
        self.backend.settle(self.model)
        ran_on = self.backend.ran_on(self.observer.weights)
        if not self.trains:
            self._look_at_output(execute)
        elif step is not None:
            self.loss = self._last_loss(step)
        return self._collect(ran_on)

    def _step(self, execute: Execute) -> ExecutionStep:
        executions = self.backend.executions(self.feed, labelled=self.trains)
        if self.cell.data.pipeline == Pipeline.device:
            executions = cycle([self.backend.copy_in(next(executions))])
        return ExecutionStep(execute, executions, self.backend, self.samples_per_execution, copies_out=not self.trains)

    def _window(self, execute: Execute) -> ExecutionStep:
        step, backend, cell = self._step(execute), self.backend, self.cell
        if cell.protocol == Protocol.steps:
            self.timing = clock.measure_steps(step, backend.wait, cell.warmup, cell.steps, backend.compiles)
        else:
            self.timing = clock.measure(step, backend.wait, cell.window, backend.compiles)
        # What the step fetches itself, it copies too; so do several devices.
        fetches_inside = self.trains and backend.fetches_inside(self.feed)
        if fetches_inside:
            self.timing.data_s = []
        if backend.on_host or backend.num_devices > 1 or fetches_inside or cell.data.pipeline == Pipeline.device:
            self.timing.copy_in_s = []
        if not step.copies_out:
            self.timing.copy_out_s = []
        return step

    def _last_loss(self, step: ExecutionStep) -> float | None:
        """The loss of one more execution: Keras keeps the mean of all since the last reset."""
        if not math.isfinite(float(self.model.get_metrics_result()["loss"])):
            return self._finite(math.nan)
        self.model.reset_metrics()
        step.compute(step.copy_in(step.fetch()))
        self.backend.settle(self.model)
        return self._finite(float(self.model.get_metrics_result()["loss"]))

    def _whole_pass(self, execute: Execute) -> Epoch:
        """One pass over the feed."""
        step = self._step(execute)
        began_boot_s, seconds = measure_pass(self.timing, step, self.backend.wait, self.backend.compiles)
        return Epoch(seconds=seconds, num_samples=self.feed.num_samples, began_boot_s=began_boot_s)

    def _train_epochs(self, execute: Execute) -> None:
        tested = feed_of(self.cell, "test", self.data_folder, "float32")
        test = self.backend.tester(self.model)
        for _ in range(self.cell.epochs):
            self.model.reset_metrics()
            epoch = self._whole_pass(execute)
            loss, accuracy = self._metrics(epoch.num_samples)
            evaluation = self._evaluate(test, tested)
            self.epochs.append(dataclasses.replace(epoch, loss=loss, accuracy=accuracy, evaluation=evaluation))

    def _evaluate(self, test: Execute, feed: Feed) -> Evaluation:
        """The test set, after an epoch."""
        self.model.reset_metrics()
        executions = self.backend.executions(feed, labelled=True)
        step = ExecutionStep(test, executions, self.backend, self.samples_per_execution, copies_out=False)
        seconds = time_pass(step, self.backend.wait)
        loss, accuracy = self._metrics(feed.num_samples)
        return Evaluation(num_samples=feed.num_samples, seconds=seconds, loss=loss, accuracy=accuracy)

    def _metrics(self, num: int) -> tuple[float | None, float | None]:
        """Mean loss and share of right answers of `num` samples since the last reset, as Keras tracks them."""
        self.backend.settle(self.model)
        results = {name: float(value) for name, value in self.model.get_metrics_result().items()}
        share = results.get("accuracy")  # in fp32
        return self._finite(results["loss"]), None if share is None else round(share * num) / num

    def _finite(self, loss: float) -> float | None:
        if math.isfinite(loss):
            return loss
        self.defects = ["the loss is not finite"]
        return None

    def _look_at_output(self, execute: Execute) -> None:
        """Whether what a prediction gives is finite; its first samples are kept, to be compared with fp32's."""
        images = self._first_images()
        # As many as were measured: another size would be compiled anew.
        num = self.samples_per_execution
        tiled = Arrays(images[np.arange(num) % len(images)], np.zeros(num, np.uint8))
        feed = ArrayFeed(tiled, Order(num, self.cell.batch_size, last="keep"), None)
        batch = next(self.backend.executions(feed, labelled=False))
        output = np.asarray(execute(self.backend.copy_in(batch))).astype(np.float64)[: len(images)]
        if not np.isfinite(output).all():
            self.defects = ["the output is not finite"]
        elif not self.is_reference:
            self.output = output

    def _first_images(self) -> NDArray[Any]:
        """A few samples' images, as the feed gives them."""
        if isinstance(self.feed, RandomFeed):
            return self.feed.batches[0][0][:NUM_SAMPLES]
        return np.asarray(load_split(self.data_folder, "test").images[:NUM_SAMPLES])

    def _collect(self, ran_on: str) -> Measurement:
        """What was seen, as a measurement."""
        num_compiles, compile_s = self.resources.compiles
        counts = read_counts(self.data_folder)
        error = None
        if self.output is not None:
            with self.backend.on_cpu():
                expected = agreement.reference(self.cell, self._first_images(), self.shape, self.num_classes)
            error = relative_error(self.output, expected)
        recompiled = self.timing.compiled_in_steady_state
        return Measurement(
            device=ran_on,
            device_name=self.backend.device_name() or look(self.cell.device).name,
            precision=self.observer.precision(tf32=self.backend.uses_tf32()),
            num_devices=self.backend.num_devices,
            threads=self.backend.threads,
            num_params=self.num_params,
            num_train_samples=counts.get("train"),
            num_test_samples=counts.get("test"),
            build_s=self.build_s,
            compile_s=compile_s if num_compiles else None,
            num_compiles=num_compiles or None,
            work=work.count(self.network, self.cell.batch_size, train=self.trains),
            epochs=self.epochs,
            evaluation=self.epochs[-1].evaluation if self.epochs else None,
            output_error=error,
            loss=self.loss,
            peak_device_bytes=self.resources.peak_device_bytes,
            peak_host_bytes=self.resources.peak_host_bytes,
            warnings=list(self._warnings(recompiled, error)),
            defects=self.defects,
            **self.timing.measured(),
        )

    def _warnings(self, recompiled: int, output_error: float | None) -> Iterator[str]:
        if self.samples_per_execution > self.cell.batch_size:
            num = self.samples_per_execution // self.cell.batch_size
            yield f"steps and their latency are those of whole executions, of {num} batches each"
        if recompiled:
            yield f"compiled {recompiled} times in the steady state"
        if output_error is not None and output_error > limit(self.cell.precision):
            yield f"the output differs from fp32's on the CPU by {output_error:.1%}"
