"""The Keras engine: one cell -> one measurement, through the functions that Keras' own `fit` and `predict` call."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import Arrays
from accelbench.data.order import Order
from accelbench.engines.cell_run import CellRun, Observed
from accelbench.engines.formats import FORMATS
from accelbench.engines.keras import networks, task, work
from accelbench.engines.keras.backends import Backend, Execute, ExecutionStep, backend_for
from accelbench.engines.keras.feed import ArrayFeed, Feed, RandomFeed, feed_of
from accelbench.engines.keras.precision import Observer
from accelbench.engines.keras.task import frozen, learning_rate, states
from accelbench.engines.models import output_shapes
from accelbench.engines.sources import channels_last, first_images, input_of, is_random, pictures_alike, unseen_images
from accelbench.measuring.breakdown import has_time
from accelbench.measuring.output_check import batch_axes
from accelbench.measuring.outputs import NUM_SAMPLES, Output, OutputTensor
from accelbench.measuring.promises import check_timed
from accelbench.measuring.replay import num_batches, replay, usual_longest
from accelbench.measuring.runner import Watch
from accelbench.measuring.training import States
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Work
from accelbench.schema.vocab import Device, Pipeline, Precision


def run(cell: Cell, data_folder: Path, work: Work | None = None) -> Measurement | None:
    """Runs `cell` in this process, which must have run no other cell.

    Args:
        cell: what to run.
        data_folder: where the data set's arrays are.
        work: of one step, if it has been counted already.

    Raises:
        UnsupportedError: the cell can't run, with the reason.
    """
    return _Run(cell, data_folder, backend_for(cell)).measure(work)


class _Run(CellRun):
    """One cell's run, whose steps are executions: calls of Keras' compiled function."""

    backend: Backend
    feed: Feed
    test_feed: Feed

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        assert cell.keras is not None
        super().__init__(cell, data_folder, backend)
        self.feed = feed_of(cell, "train" if self.trains else "test", data_folder)
        shape, self.num_classes = input_of(cell, data_folder)
        self.shape = channels_last(shape)
        self.samples_per_execution = cell.batch_size * cell.keras.steps_per_execution
        start = time.perf_counter()
        with backend.scope():
            self.network = network = networks.network_of(cell, self.shape, self.num_classes)
            dtype = FORMATS[cell.precision].stored if is_random(cell) else "uint8"
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
        self.execute: Execute
        self.test: Execute
        self.window_step: ExecutionStep | None = None
        self.seen.training.names = [each.path for each in self.model.trainable_variables] if self.trains else ()
        self.compared_on: NDArray[Any] | None = None  # the memory that compared images take in turn

    def run_steps(self) -> None:
        self.execute = self.backend.trainer(self.model) if self.trains else self.backend.predictor(self.model)
        if self.trains and self.fits:
            self.test_feed = feed_of(self.cell, "test", self.data_folder)
            self.test = self.backend.tester(self.model)
            self.seen.training.start = self._states()
        super().run_steps()
        if self.trains and not self.is_one_step:
            self.seen.training.end = self._states()

    def watch(self, step: Any) -> Watch:
        return self

    def start(self) -> None:
        if self.trains:
            self.seen.training.start = self._states()

    @check_timed
    def look(self, batch: Any) -> None:
        if self.trains:
            self.seen.training.looked = self._states()
        elif self.backend.num_devices == 1:
            size = self.samples_per_execution
            parts = batch if isinstance(batch, list) else [batch]  # of an execution of several steps
            images = np.concatenate([np.asarray(images) for images, *_ in parts])
            self.timed = images, _described(np.asarray(self.backend.last), size, self.rows_of(size))

    @check_timed
    def _states(self) -> States:
        """Those of the weights; none of a TPU, which may be in another machine."""
        if self.cell.device == Device.tpu:
            return {}
        return states(self.seen.training.names, self.backend.trained(self.model))

    @check_timed
    def _replay(self, fed: NDArray[Any]) -> None:
        latency_s, step = median(self.timing.latency_s), self.window_step
        if step is None or not has_time(latency_s, self.cell.timeout_s):
            return
        num = num_batches(latency_s)

        def seconds(batches: Sequence[Any]) -> float:
            start = time.perf_counter()
            for batch in batches:
                step.compute(step.copy_in(batch))
            self.backend.wait()
            return time.perf_counter() - start

        self.seen.replayed = replay(
            lambda: [self._execution(fed.copy()) for _ in range(num)],
            lambda: [self._execution(self._alike(fed)) for _ in range(num)],
            seconds,
            usual_longest(self.timing.latency_s) if num == 1 and self.backend.on_host else None,
            self.unseen_s,
        )

    def new_step(self) -> ExecutionStep:
        """Trains or predicts; metrics start anew."""
        if self.trains and self.fits:
            self.model.reset_metrics()
        executions = self.backend.executions(self.feed, labelled=self.trains)
        if self.cell.data.pipeline == Pipeline.device:
            executions = cycle([self.backend.copy_in(next(executions))])
        return ExecutionStep(
            self.execute, executions, self.backend, self.samples_per_execution, copies_out=not self.trains
        )

    def new_test_step(self) -> ExecutionStep:
        """Evaluates; metrics start anew."""
        self.model.reset_metrics()
        executions = self.backend.executions(self.test_feed, labelled=True)
        return ExecutionStep(self.test, executions, self.backend, self.samples_per_execution, copies_out=False)

    def measure_window(self, step: ExecutionStep) -> None:  # type: ignore[override]
        """Keeps the step, because the last loss needs one more execution of it."""
        super().measure_window(step)
        self.window_step = step

    @property
    def fetches_inside(self) -> bool:
        return self.trains and self.backend.fetches_inside(self.feed)

    @property
    def copies_inside(self) -> bool:
        """TensorFlow's iterator copies parts of each batch to several devices."""
        return self.fetches_inside or self.backend.num_devices > 1

    def outcome(self, step: ExecutionStep, num_samples: int) -> tuple[float | None, float | None]:
        """From Keras' metrics since their last reset."""
        self.backend.settle(self.model)
        results = {name: float(value) for name, value in self.model.get_metrics_result().items()}
        share = results.get("accuracy")  # in fp32: rounded to a whole number of samples
        return self.checked_loss(results["loss"]), None if share is None else round(share * num_samples) / num_samples

    def observe(self) -> Observed:
        """What ran; then the last loss or the output, each of which takes one more execution."""
        self.backend.settle(self.model)
        ran_on = self.backend.ran_on(self.observer.weights)
        loss = None
        self.seen.products = work.products(self.network, self.observer.computed, train=self.trains)
        if self.trains:
            self.seen.training.learning_rates = [learning_rate(self.model.optimizer)]
        else:
            if not np.isfinite(np.asarray(self.backend.last)).all():  # of a whole batch: the compared images are few
                self.mark_not_finite()
            size = self.samples_per_execution
            self.keep_outputs(size, output_shapes(self.cell.model, size, self.shape, self.num_classes))
            if self.timed is not None and self.cell.data.pipeline != Pipeline.fresh:  # else no input is ever fed twice
                self._replay(self.timed[0])
        if self.trains and self.window_step is not None:
            loss = self._last_loss(self.window_step)
            if self.seen.training.end:
                self.seen.training.later = self._states()
        return Observed(
            device=ran_on,
            device_name=self.device_name(),
            precision=self.observer.precision(self.seen.products.most, tf32=self.backend.uses_tf32()),
            num_devices=self.backend.num_devices,
            threads=self.backend.threads,
            loss=loss,
            work=self.work_of_step(lambda: work.count(self.network, self.cell.batch_size, train=self.trains)),
        )

    def _last_loss(self, step: ExecutionStep) -> float | None:
        """The loss of one more execution: Keras keeps the mean of all since the last reset."""
        if not math.isfinite(float(self.model.get_metrics_result()["loss"])):
            return self.checked_loss(math.nan)
        self.model.reset_metrics()
        step.compute(step.copy_in(step.fetch()))
        self.backend.settle(self.model)
        return self.checked_loss(float(self.model.get_metrics_result()["loss"]))

    def _first_images(self) -> NDArray[Any]:
        def drawn() -> NDArray[Any]:
            assert isinstance(self.feed, RandomFeed), "random images come from a RandomFeed"
            return self.feed.batches[0][0]

        num = min(NUM_SAMPLES, self.samples_per_execution)
        images: NDArray[Any] = first_images(self.cell, self.data_folder, num, drawn)
        return images

    def compared_inputs(self) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.timed is not None:
            fed = self.timed[0]
        else:
            first = self._first_images()
            fed = first[np.arange(self.samples_per_execution) % len(first)]
        return fed, self._unseen(fed)

    def _unseen(self, like: NDArray[Any]) -> NDArray[Any]:
        images = unseen_images(len(like), like.shape[1:], floats=like.dtype != np.uint8)
        return images.astype(like.dtype, copy=False)

    def _alike(self, fed: NDArray[Any]) -> NDArray[Any]:
        """Images that are drawn as those of the feed are: on them the network has as much to do."""
        if fed.dtype == np.uint8:
            return pictures_alike(fed)
        return np.random.default_rng().standard_normal(fed.shape, np.float32).astype(fed.dtype)

    def inputs_of_rows(self, batch: NDArray[Any], rows: Sequence[int]) -> list[int]:
        """Hashes of them."""
        return [hash(batch[row].tobytes()) for row in rows]

    def reordered_inputs(self, batch: NDArray[Any], order: Sequence[int]) -> NDArray[Any] | None:
        """In host memory; None on several devices, where each further execution is costly."""
        images: NDArray[Any] = batch[list(order)]
        return images if self.backend.num_devices == 1 else None

    def mixed_inputs(self, batch: NDArray[Any], other: NDArray[Any], rows: Sequence[int]) -> NDArray[Any]:
        images = batch.copy()
        images[list(rows)] = other[list(rows)]
        return images

    def _execution(self, images: NDArray[Any]) -> Any:
        """The images of a whole execution, as its function takes them."""
        arrays = Arrays(images, np.zeros(len(images), np.uint8))
        feed = ArrayFeed(arrays, Order(len(images), self.cell.batch_size, last="keep"), None)
        return next(self.backend.executions(feed, labelled=False))

    def measured_output(self, batch: NDArray[Any], rows: Sequence[int]) -> Output:
        """From a further execution, whose images are copied over those of the last one: they keep their address."""
        if self.compared_on is None:
            self.compared_on = np.empty_like(batch)
        np.copyto(self.compared_on, batch)
        output = np.asarray(self.execute(self.backend.copy_in(self._execution(self.compared_on))))
        return _described(output, len(batch), rows)

    num_reference_rows = NUM_SAMPLES

    def reference_outputs(
        self, batches: Sequence[NDArray[Any]], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        """From the cell's network, built again on the CPU, for the images of the first rows alone."""
        rows = self.rows[:NUM_SAMPLES]
        images = [batch[rows] for batch in batches]
        with self.backend.on_cpu():
            cell = self.cell if precision is None else replace(self.cell, precision=precision)
            outputs = networks.reference(
                cell, images, self.shape, self.num_classes, other=other, rounds=bool(precision)
            )
        return [_described(output, len(rows), range(len(rows))) for output in outputs]

    def warnings(self) -> Iterator[str]:
        """Layers that do not train; if an execution has several batches: what the times mean."""
        if self.trains and (still := frozen(self.network)):
            yield f"not trained, since their trainable is false: {', '.join(still)}"
        num = self.samples_per_execution // self.cell.batch_size
        if num > 1:
            yield f"each step, and its latency, is an execution of {num} batches"


def _described(output: NDArray[Any], size: int, rows: Sequence[int]) -> Output:
    """The output for a batch of `size` images, with these of its rows."""
    has_rows = 0 in batch_axes(output.shape, size)
    return [OutputTensor(output.shape, {0: output[list(rows)].astype(np.float64)} if has_rows else {})]
