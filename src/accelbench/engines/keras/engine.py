"""The Keras engine: one cell -> one measurement, through the functions that Keras' own `fit` and `predict` call."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import Arrays
from accelbench.data.order import VALIDATION, Order
from accelbench.engines.cell_run import CellRun
from accelbench.engines.formats import FORMATS
from accelbench.engines.images import channels_last, input_of, is_random, output_shapes, pictures_alike, unseen_images
from accelbench.engines.keras import networks
from accelbench.engines.keras.backends import Backend, Execute, backend_for
from accelbench.engines.keras.feed import ArrayFeed, Feed, feed_of
from accelbench.engines.keras.work import Observer, count, state_of
from accelbench.engines.served import NUM_DRAWN, powers_up_to
from accelbench.engines.target import TargetRun
from accelbench.measuring.output_check import NUM_SAMPLES, Output, OutputTensor, batch_axes
from accelbench.measuring.promises import States, check_timed
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Observed, Work
from accelbench.schema.vocab import Device, Pipeline, Precision, Span


def run(cell: Cell, data_folder: Path, work: Work | None = None, requests: Path | None = None) -> Measurement | None:
    """Runs `cell` in this process, which ran no other; an UnsupportedError if it can't. See `CellRun.measure`."""
    return _Run(cell, data_folder, backend_for(cell)).measure(work, requests)


class ExecutionStep:
    """One call of a compiled function: `engine.steps_per_execution` steps on an item of `executions`."""

    def __init__(self, run: "_Run", execute: Execute, executions: Iterator[Any]) -> None:
        backend, self._num_samples = run.backend, run.samples_per_execution
        self.executions, self.compute = executions, execute
        self.copies_out = not run.trains and not backend.on_host
        self.copy_in = (lambda batch: batch) if backend.on_host else backend.copy_in

    def fetch(self) -> Any:
        return next(self.executions)

    def copy_out(self, result: Any) -> None:
        if self.copies_out:
            np.asarray(result)

    def num_samples(self, batch: Any) -> int:
        return self._num_samples


class _Run(CellRun):
    """One cell's run, whose steps are executions: calls of Keras' compiled function."""

    backend: Backend
    feed: Feed
    test_feed: Feed
    execute: Execute
    test: Execute
    in_lists: bool  # whether the function takes a list of batches
    num_reference_rows = NUM_SAMPLES

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        assert cell.keras is not None
        super().__init__(cell, data_folder, backend)
        self.watch = self
        self.feed = feed_of(cell, "train" if self.trains else "test", data_folder)
        self.fetches_inside = self.trains and backend.fetches_inside(self.feed)
        self.copies_inside = backend.num_devices > 1  # TensorFlow's iterator copies parts of each batch to them
        if cell.keras.jit_compile:  # without XLA, TensorFlow compiles once for all sizes, when it sees a second one
            self.serving_sizes = powers_up_to(cell.batch_size)
        shape, self.num_classes = input_of(cell, data_folder)
        self.shape = channels_last(shape)
        self.samples_per_execution = cell.batch_size * cell.keras.steps_per_execution
        if self.to_target is not None:
            self.to_target.begin(Span.build)
        start = time.perf_counter()
        with backend.scope():
            self.network = network = networks.network_of(cell, self.shape, self.num_classes)
            dtype = FORMATS[cell.precision].stored if is_random(cell) else "uint8"
            self.model = networks.model_of(network, dtype)
            self.model.compile(
                optimizer=networks.optimizer_of(cell.model) if self.trains else None,
                loss=networks.loss_of(cell.model, network, dtype),
                metrics=networks.metrics_of(cell.model, network) if self.fits and self.trains else None,
                jit_compile=cell.keras.jit_compile,
                steps_per_execution=cell.keras.steps_per_execution,
            )
            if self.trains:
                self.model.optimizer.build(self.model.trainable_variables)
        backend.wait()
        self.build_s = time.perf_counter() - start
        self.num_params = sum(math.prod(weight.shape) for weight in network.trainable_weights)
        self.observer = Observer(network)
        self.seen.training.names = [each.path for each in self.model.trainable_variables] if self.trains else ()

    def run_steps(self) -> None:
        self.execute = self.backend.function(self.model, "train" if self.trains else "predict")
        if self.trains and self.fits:
            self.test_feed = feed_of(self.cell, "test", self.data_folder)
            self.test = self.backend.function(self.model, "test")
            self.seen.training.start = self._states()
        if self.to_target is not None:
            assert self.cell.keras is not None
            assert isinstance(self.feed, ArrayFeed)
            self.to_target.plan(self.feed.order, self.cell.keras.steps_per_execution)
            self._train_to_target(self.to_target)
        else:
            super().run_steps()
        if self.trains and not self.is_one_step:
            self.seen.training.end = self._states()

    def _train_to_target(self, to_target: TargetRun) -> None:
        tested, self.test_feed = self.test_feed, feed_of(self.cell, VALIDATION, self.data_folder)
        epochs = (self.backend.executions(self.feed, labelled=True) for _ in range(self.cell.epochs))
        batches = chain.from_iterable(epochs)
        while not to_target.is_over:
            to_target.train(self, ExecutionStep(self, self.execute, to_target.interval_of(batches)))
            self.backend.settle(self.model)
            to_target.evaluate(self, self.new_test_step(), self.test_feed.num_samples)
        self.test_feed = tested
        to_target.test(self, self.new_test_step(), self.test_feed.num_samples)

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
        return dict(zip(self.seen.training.names, map(state_of, self.backend.trained(self.model)), strict=True))

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
        random = is_random(self.cell)
        data = replace(self.cell.data, pipeline=Pipeline.fresh) if random else self.cell.data
        feed = feed_of(replace(self.cell, batch_size=1, data=data), "test", self.data_folder)
        pool = [np.array(images) for images, *_ in islice(feed, min(num, NUM_DRAWN) if random else num)]
        self.in_lists = isinstance(self._execution(pool[0]), list)
        return pool

    def joined(self, requests: Sequence[NDArray[Any]]) -> Any:
        batch = (np.concatenate(requests),)
        return [batch] if self.in_lists else batch

    def numbers(self, result: Any) -> NDArray[Any]:
        return np.array(result, np.float64)

    def outcome(self, step: ExecutionStep, num_samples: int) -> tuple[float | None, float | None]:
        """From Keras' metrics since their last reset."""
        self.backend.settle(self.model)
        results = {name: float(value) for name, value in self.model.get_metrics_result().items()}
        share = results.get("accuracy")  # in fp32: rounded to a whole number of samples
        return self.checked_loss(results["loss"]), None if share is None else round(share * num_samples) / num_samples

    def observe(self) -> Observed:
        """What ran; then the output of further executions. The loss is the mean of all steps since metrics began."""
        self.backend.settle(self.model)
        kinds, loss = {kind.lower() for kind in self.backend.kinds(self.observer.weights)}, None
        self.seen.products = self.observer.products(train=self.trains)
        if self.trains:
            optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)  # of one that scales
            self.seen.training.learning_rates = [float(optimizer.learning_rate.numpy())]
            if not self.fits:
                loss = self.checked_loss(float(self.model.get_metrics_result()["loss"]))
        else:
            if not np.isfinite(np.asarray(self.backend.last)).all():  # of a whole batch: the compared images are few
                self.mark_not_finite()
            size = self.samples_per_execution
            self.keep_outputs(size, output_shapes(self.cell.model, size, self.shape, self.num_classes))
            self._look_for_kept_results()
        return Observed(
            device=" and ".join(sorted(kinds)),
            device_name=self.device_name(),
            precision=self.observer.precision(self.seen.products.most, tf32=self.backend.uses_tf32()),
            num_devices=self.backend.num_devices,
            threads=self.backend.threads,
            loss=loss,
            work=self.work_of_step(lambda: count(self.network, self.cell.batch_size, train=self.trains)),
        )

    def _look_for_kept_results(self) -> None:
        """Unless no input is ever fed twice. On unseen images the network has as much to do as on those of the feed."""
        if self.timed is None or self.cell.data.pipeline == Pipeline.fresh:
            return
        fed: NDArray[Any] = self.timed[0]

        def alike() -> NDArray[Any]:
            if fed.dtype == np.uint8:
                return pictures_alike(fed)
            return np.random.default_rng().standard_normal(fed.shape, np.float32).astype(fed.dtype)

        self.look_for_kept_results(lambda: self._execution(fed.copy()), lambda: self._execution(alike()))

    def compared_inputs(self) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.timed is not None:
            fed = self.timed[0]
        else:
            steps = self.samples_per_execution // self.cell.batch_size
            first = np.concatenate([images for images, *_ in islice(self.feed, steps)])
            fed = first[np.arange(self.samples_per_execution) % len(first)]
        unseen = unseen_images(len(fed), fed.shape[1:], floats=fed.dtype != np.uint8)
        return fed, unseen.astype(fed.dtype, copy=False)

    def inputs_of_rows(self, batch: NDArray[Any], rows: Sequence[int]) -> list[int]:
        return [hash(batch[row].tobytes()) for row in rows]

    def reordered_inputs(self, batch: NDArray[Any], order: Sequence[int]) -> NDArray[Any] | None:
        """In host memory; None on several devices, where each further execution is costly."""
        return batch[list(order)] if self.backend.num_devices == 1 else None

    def mixed_inputs(self, batch: NDArray[Any], other: NDArray[Any], rows: Sequence[int]) -> NDArray[Any]:
        images = batch.copy()
        images[rows] = other[rows]
        return images

    def _execution(self, images: NDArray[Any]) -> Any:
        """The images of a whole execution, as its function takes them."""
        arrays = Arrays(images, np.zeros(len(images), np.uint8))
        feed = ArrayFeed(arrays, Order(len(images), self.cell.batch_size, last="keep"), None)
        return next(self.backend.executions(feed, labelled=False))

    def measured_output(self, batch: NDArray[Any], rows: Sequence[int]) -> Output:
        output = np.asarray(self.execute(self.backend.copy_in(self._execution(batch.copy()))))
        return _described(output, len(batch), rows)

    def reference_outputs(
        self, batches: Sequence[NDArray[Any]], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        """From the cell's network, built again on the CPU, for the images of the first rows alone."""
        rows = self.rows[:NUM_SAMPLES]
        images = [batch[rows] for batch in batches]
        with self.backend.on_cpu():
            cell = replace(self.cell, precision=precision or Precision.fp32)
            outputs = networks.reference(cell, images, self.shape, self.num_classes, other=other)
        return [_described(output, len(rows), range(len(rows))) for output in outputs]

    def warnings(self) -> Iterator[str]:
        num = self.samples_per_execution // self.cell.batch_size
        if num > 1:
            yield f"each step, and its latency, is an execution of {num} batches"


def _described(output: NDArray[Any], size: int, rows: Sequence[int]) -> Output:
    """The output for a batch of `size` images, with these of its rows."""
    has_rows = 0 in batch_axes(output.shape, size)
    return [OutputTensor(output.shape, {0: output[list(rows)].astype(np.float64)} if has_rows else {})]
