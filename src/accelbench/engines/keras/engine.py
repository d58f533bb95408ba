"""The Keras engine: measures one cell through the compiled functions that `fit` and `predict` of Keras call."""

import math
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data.order import VALIDATION
from accelbench.engines.cell_run import CellRun
from accelbench.engines.formats import FORMATS
from accelbench.engines.goal import GoalRun
from accelbench.engines.images import channels_last, input_of, is_random, unseen_images
from accelbench.engines.keras import networks
from accelbench.engines.keras.backend import Backend, Execute
from accelbench.engines.keras.feed import ArrayFeed, Feed, feed_of
from accelbench.engines.keras.flops import Observer, count
from accelbench.engines.served import NUM_DRAWN, powers_up_to
from accelbench.measuring.checks import WEIGHTS, NewNetwork, ObservedOutput, Output, State, States, numbers_of
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Observed, Work
from accelbench.schema.vocab import Device, Pipeline, Precision, Span


def run(cell: Cell, data_folder: Path, work: Work | None = None, requests: Path | None = None) -> Measurement | None:
    """Runs `cell` in this process. The process must not have run another cell. See `CellRun.measure`.

    Raises UnsupportedError if the cell can't run.
    """
    return Run(cell, data_folder, Backend(cell)).measure(work, requests)


class ExecutionStep:
    """A step is one call of Keras' compiled function, which runs `engine.steps_per_execution` batches."""

    def __init__(self, run: "Run", execute: Execute, executions: Iterator[Any]) -> None:
        self.run, self.backend = run, run.backend
        self.executions, self.compute = executions, execute

    def fetch(self) -> Any:
        return next(self.executions)

    def copy_in(self, batch: Any) -> Any:
        return batch if self.backend.on_host else self.backend.copy_in(batch)

    def copy_out(self, result: Any) -> None:
        if not (self.run.trains or self.backend.on_host):
            np.asarray(result)

    def num_samples(self, batch: Any) -> int:
        return self.run.samples_per_execution


class Run(CellRun):
    """The run of one cell. A step is an execution: one call of Keras' compiled function."""

    backend: Backend
    feed: Feed
    test_feed: Feed
    execute: Execute
    test: Execute

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        settings = cell.keras
        assert settings is not None
        super().__init__(cell, data_folder, backend)
        self.feed = feed_of(cell, "train" if self.trains else "test", data_folder)
        self.fetches_inside = self.trains and backend.fetches_inside(self.feed)
        self.copies_inside = backend.num_devices > 1  # TensorFlow's iterator copies the parts of a batch to the devices
        if settings.jit_compile:  # XLA compiles each size; without XLA, TensorFlow compiles once for all sizes
            self.serving_sizes = powers_up_to(cell.batch_size)
        shape, self.num_classes = input_of(cell, data_folder)
        self.shape = channels_last(shape)
        self.steps_per_execution = settings.steps_per_execution
        self.samples_per_execution = cell.batch_size * settings.steps_per_execution
        if self.goal is not None:
            self.goal.begin(Span.build)
        start = time.perf_counter()
        with backend.scope():
            self.network = network = networks.network_of(cell, self.shape, self.num_classes)
            dtype = FORMATS[cell.precision].stored if is_random(cell) else "uint8"
            self.model = networks.model_of(network, dtype)
            self.model.compile(
                optimizer=networks.optimizer_of(cell.model) if self.trains else None,
                loss=networks.loss_of(cell.model, network, dtype),
                metrics=networks.metrics_of(cell.model, network) if self.fits and self.trains else None,
                jit_compile=settings.jit_compile,
                steps_per_execution=settings.steps_per_execution,
            )
            if self.trains:
                self.model.optimizer.build(self.model.trainable_variables)
        backend.wait()
        self.build_s = time.perf_counter() - start
        self.num_params = network.count_params()
        self.observer = Observer(network)
        if self.trains:
            weights = self.model.trainable_variables
            training = self.observations.training
            training.names = [weight.path for weight in weights]
            training.sizes = {weight.path: math.prod(weight.shape) for weight in weights}
            training.is_coarse = any(weight.dtype in ("float16", "bfloat16") for weight in weights)

    def run_steps(self) -> None:
        self.execute = self.backend.function(self.model, "train" if self.trains else "predict")
        if self.trains and self.fits:
            self.test_feed = feed_of(self.cell, "test", self.data_folder)
            self.test = self.backend.function(self.model, "test")
            self.observations.training.before = self._states()
        if self.goal is not None:
            assert isinstance(self.feed, ArrayFeed)
            self.goal.plan(self.feed.order, self.steps_per_execution)
            self._train_to_goal(self.goal)
        else:
            super().run_steps()
        if self.trains and not self.is_one_step:
            with self.observations.checking(WEIGHTS):
                self.observations.training.after = self._states()

    def _train_to_goal(self, goal: GoalRun) -> None:
        tested = self.test_feed
        self.test_feed = feed_of(self.cell, VALIDATION, self.data_folder)
        epochs = (self.backend.executions(self.feed, labelled=True) for _ in range(self.cell.epochs))
        batches = chain.from_iterable(epochs)
        while not goal.is_over:
            goal.train(self, ExecutionStep(self, self.execute, goal.interval_of(batches)))
            goal.evaluate(self, self.new_test_step(), self.test_feed.num_samples)
        self.test_feed = tested
        goal.test(self, self.new_test_step(), self.test_feed.num_samples)

    def begin_steady(self) -> None:
        if self.trains:
            with self.observations.checking(WEIGHTS):
                self.observations.training.before = self._states()

    def _states(self) -> States:
        """Returns for each weight its checksum, and whether all its numbers are finite.

        On a TPU, returns an empty dict, because the TPU may be in another machine.
        """
        if self.cell.device == Device.tpu:
            return {}
        states = {}
        for name, values in zip(self.observations.training.names, self.backend.trained(self.model), strict=True):
            states[name] = State(zlib.crc32(values.tobytes()), bool(np.isfinite(values).all()))
        return states

    def new_step(self) -> ExecutionStep:
        if self.trains and self.fits:
            self.model.reset_metrics()
        executions = self.backend.executions(self.feed, labelled=self.trains)
        if self.cell.data.pipeline == Pipeline.device:
            executions = cycle([self.backend.copy_in(next(executions))])
        return ExecutionStep(self, self.execute, executions)

    def new_test_step(self) -> ExecutionStep:
        self.model.reset_metrics()
        return ExecutionStep(self, self.test, self.backend.executions(self.test_feed, labelled=True))

    def requests(self, num: int) -> list[NDArray[Any]]:
        cell = replace(self.cell, batch_size=1)
        if is_random(cell):
            cell = replace(cell, data=replace(cell.data, pipeline=Pipeline.fresh))
            num = min(num, NUM_DRAWN)
        return [np.array(images) for images, *_ in islice(feed_of(cell, "test", self.data_folder), num)]

    def joined(self, requests: Sequence[NDArray[Any]]) -> Any:
        return self.backend.execution_of(np.concatenate(requests))

    def outcome(self, step: ExecutionStep, num_samples: int) -> tuple[float | None, float | None]:
        """Returns the loss and the accuracy that Keras' metrics have added up since their last reset."""
        results = {name: float(value) for name, value in self.model.get_metrics_result().items()}
        share = results.get("accuracy")  # a number in fp32, so it is rounded to a whole number of samples below
        return self.checked_loss(results["loss"]), None if share is None else round(share * num_samples) / num_samples

    def observe(self) -> Observed:
        """Reports the precision and the device that were really used. In inference, also prepares the output check.

        The reported loss is Keras' mean over all steps so far.
        """
        backend = self.backend
        kinds = {kind.lower() for kind in backend.kinds(self.observer.weights)}
        loss = None
        self.observations.products = self.observer.products(train=self.trains)
        expected = FORMATS[self.cell.precision].computed
        if self.trains:
            if not self.fits:
                loss = self.checked_loss(float(self.model.get_metrics_result()["loss"]))
        else:
            self.keep_output()
        return Observed(
            device=" and ".join(sorted(kinds)),
            device_name=self.device_name(),
            precision=self.observer.precision(self.observations.products.ran_in(expected), tf32=backend.uses_tf32()),
            num_devices=backend.num_devices,
            threads=backend.threads,
            loss=loss,
            work=self.work_of_step(lambda: count(self.network, self.cell.batch_size, train=self.trains)),
        )

    def observe_output(self) -> ObservedOutput:
        first = np.concatenate([np.asarray(images) for images, *_ in islice(self.feed, self.steps_per_execution)])
        fed = first[np.arange(self.samples_per_execution) % len(first)]  # as many images as one execution needs
        last = numbers_of(np.asarray(self.backend.last))
        unseen = unseen_images(len(fed), fed.shape[1:], floats=fed.dtype != np.uint8).astype(fed.dtype, copy=False)
        output = self.execute(self.backend.copy_in(self.backend.execution_of(unseen.copy())))
        return ObservedOutput(unseen, [numbers_of(np.asarray(output))], fed=fed, output_of_fed=[last])

    def new_network(self, state: None, precision: Precision) -> NewNetwork:
        """Returns a function that builds the cell's network again, on the CPU and from the same seed, and runs it."""
        cell = replace(self.cell, precision=precision)

        def run(batch: NDArray[Any], seed: int) -> Output:
            with self.backend.on_cpu():
                return [numbers_of(networks.reference(cell, batch, self.shape, self.num_classes))]

        return run

    def warnings(self) -> Iterator[str]:
        num = self.steps_per_execution
        if num > 1:
            yield f"engine.steps_per_execution={num}: each latency is the time of {num} batches"
