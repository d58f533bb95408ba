"""The Keras engine: measures one cell through the compiled functions that `fit` and `predict` of Keras call."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, cycle, islice, repeat
from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from accelbench.data.order import VALIDATION
from accelbench.devices.cpu import usable_cores
from accelbench.engines.cell_run import BaseBackend, CellRun
from accelbench.engines.goal import GoalRun
from accelbench.engines.images import channels_last, input_of, is_random, optimizer_named, unseen_images
from accelbench.engines.keras import networks
from accelbench.engines.keras.feed import ArrayFeed, Feed, feed_of
from accelbench.engines.served import NUM_DRAWN, powers_up_to
from accelbench.errors import UnsupportedError
from accelbench.measuring.checks import (
    FORMATS,
    WEIGHTS,
    NewNetwork,
    Norms,
    ObservedOutput,
    Output,
    Products,
    numbers_of,
    word_for,
)
from accelbench.measuring.clock import Compiles
from accelbench.schema.cell import Cell, Device, Pipeline, Precision, Span
from accelbench.schema.measurement import Measurement, Observed
from accelbench.schema.text import message_of, one_line

ITERATORS = (tf.data.Iterator, tf.distribute.DistributedIterator)

# (batches of one execution) -> logs or outputs, on the device.
Execute = Callable[[Any], Any]
Kind = Literal["train", "test", "predict"]  # parts of the names of Keras' functions


def run(cell: Cell, data_folder: Path, requests: Path | None = None) -> Measurement | None:
    """Runs `cell` in this process. The process must not have run another cell. See `CellRun.measure`.

    Raises UnsupportedError if the cell can't run.
    """
    return Run(cell, data_folder, Backend(cell)).measure(requests)


class Backend(BaseBackend):
    """Runs Keras' compiled functions with a strategy of `tf.distribute`.

    Sets the numbers of threads and devices before TensorFlow runs. An execution is one call of a compiled function. It
    computes `engine.steps_per_execution` batches. Raises UnsupportedError if a device is missing.
    """

    queues = True  # waiting takes time: TensorFlow needs up to 0.1 ms to check that all devices have finished

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.on_host = cell.device == Device.cpu
        self.last: Any = None  # the result of the last execution
        self.callbacks: keras.callbacks.CallbackList | None = None  # called around each training step
        # How often a step was traced. One compilation traces several times if it has several steps or devices.
        self._num_traces = 0
        self._num_compiles, self._compile_s = 0, 0.0
        assert cell.keras is not None
        self.steps = cell.keras.steps_per_execution
        num = usable_cores() if cell.threads is None else cell.threads
        tf.config.threading.set_intra_op_parallelism_threads(num)
        tf.config.threading.set_inter_op_parallelism_threads(num)
        # By default, TensorFlow computes fp32 in TF32 on a GPU, and in bf16 on a TPU.
        tf.config.experimental.enable_tensor_float_32_execution(cell.precision == Precision.tf32)
        self.strategy = strategy_for(cell)
        self.num_devices = self.strategy.num_replicas_in_sync
        self.datasets: dict[Feed, Any] = {}

    def compiles(self) -> Compiles:
        """Returns the number of executions that compiled, and how long these executions took, compilation included."""
        return self._num_compiles, self._compile_s

    def function(self, model: keras.Model, kind: Kind) -> Execute:
        """Returns the compiled function that `fit`, `evaluate` or `predict` of Keras calls. Counts its compilations.

        The function accepts an item of `executions`. The result of `predict` stays on the device. In training, the
        callbacks of `fit(verbose=0)` run before and after each call. They take 0.1 ms or more.
        """
        step = getattr(model, f"{kind}_step")

        def counted(*args: Any, **kwargs: Any) -> Any:  # runs only while it is traced
            self._num_traces += 1
            return step(*args, **kwargs)

        setattr(model, f"{kind}_step", counted)
        getattr(model, f"make_{kind}_function")(force=True)
        execute = getattr(model, f"{kind}_function")
        if kind == "predict" and self.on_host and self.steps == self.num_devices == 1:
            # Compiles the same step as `predict_function`, but without the handling of lists and replicas, which takes
            # up to 15 % of a step of 1 ms.
            images = tf.function(
                model.predict_step, reduce_retracing=True, jit_compile=model.jit_compile or None
            )

            def execute(batches: Any) -> Any:
                return images(tf.convert_to_tensor(batches[0][0]))

        callbacks = None
        if kind == "train":
            callbacks = self.callbacks = keras.callbacks.CallbackList(model=model, add_history=True)
            callbacks.on_train_begin()

        def timed(batch: Any) -> Any:
            traced = self._num_traces
            start = time.perf_counter()
            if callbacks is not None:
                callbacks.on_train_batch_begin(0)
            self.last = execute(batch)
            if callbacks is not None:
                # Other threads read the logs; `wait` waits for them.
                callbacks.on_train_batch_end(0, self.last)
            if self._num_traces != traced:
                self.wait()
                self._num_compiles += 1
                self._compile_s += time.perf_counter() - start
            return self.last

        return timed

    def parts_of(self, weight: keras.Variable) -> Sequence[tf.Tensor]:
        """Returns the tensors of a weight, one for each replica of the model."""
        return self.strategy.experimental_local_results(weight.value)

    def executions(self, feed: Feed) -> Iterator[Any]:
        """Yields the batches of each execution.

        If TensorFlow's graph itself fetches the batches, yields TensorFlow's iterator for each execution instead.
        """
        inside = self.fetches_inside(feed)
        batches = iter(self._dataset(feed) if inside or self.num_devices > 1 else feed)
        if not inside:
            return iter(lambda: list(islice(batches, self.steps)), [])
        # Each execution gets the iterator itself.
        return (
            repeat(batches)
            if feed.num_batches is None
            else repeat(batches, -(-feed.num_batches // self.steps))
        )

    def _dataset(self, feed: Feed) -> Any:
        if feed not in self.datasets:  # made once, because it copies the arrays and traces functions
            if isinstance(feed, ArrayFeed):
                batches = _gathered(feed)
            else:
                signature = tuple(
                    tf.TensorSpec((None, *part.shape[1:]), part.dtype) for part in feed.batches[0]
                )
                batches = tf.data.Dataset.from_generator(lambda: iter(feed), output_signature=signature)
            batches = batches.prefetch(tf.data.AUTOTUNE)
            if self.num_devices > 1:
                batches = self.strategy.experimental_distribute_dataset(batches)
            self.datasets[feed] = batches
        return self.datasets[feed]

    def execution_of(self, images: NDArray[Any]) -> Any:
        """Converts images for one execution to the form of an item of `executions`. The item has no labels."""
        if self.num_devices == 1:
            return [(part,) for part in np.split(images, self.steps)]
        parts = self.strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensors((images,)))
        return [next(iter(parts))]

    def fetches_inside(self, feed: Feed) -> bool:
        """Is true if TensorFlow's graph itself fetches batches, as in `fit`.

        In training, this is so if an execution has several steps, or if the batches come from a data set.
        """
        return feed.target is not None and (self.steps > 1 or isinstance(feed, ArrayFeed))

    def copy_in(self, batch: Any) -> Any:
        """Copies the batches of an execution to the device."""
        if self.num_devices > 1 or isinstance(batch, ITERATORS):
            return batch
        with tf.device(self.strategy.extended.worker_devices[0]):
            return tf.nest.map_structure(lambda part: tf.identity(tf.convert_to_tensor(part)), batch)

    def wait(self) -> None:
        """Waits until all launched steps have finished and the callbacks have read the logs.

        Waits for all CPUs and GPUs. To wait for a TPU, copies the last result to the host.
        """
        if self.callbacks is not None:
            self.callbacks.on_epoch_end(0)
        tf.test.experimental.sync_devices()
        if self.cell.device == Device.tpu and self.last is not None:
            for part in tf.nest.flatten(self.last):
                np.asarray(part)

    def device_name(self) -> str | None:
        if self.cell.device != Device.gpu:
            return None
        details = tf.config.experimental.get_device_details(tf.config.list_physical_devices("GPU")[0])
        return details.get("device_name")

    def peak_memory_bytes(self) -> int | None:
        if self.on_host:
            return None
        names = [device.name for device in tf.config.list_logical_devices(self.cell.device.upper())]
        try:
            return max(int(tf.config.experimental.get_memory_info(name)["peak"]) for name in names)
        except (ValueError, tf.errors.UnimplementedError):  # a TPU may not report its memory
            return None


def _gathered(feed: ArrayFeed) -> tf.data.Dataset:
    """Returns a data set with the feed's batches in the feed's order. As in `fit`, TensorFlow's threads gather them."""
    with tf.device("/CPU:0"):
        # By identity: the autoencoder's images and targets are the same array, which is converted once.
        tensors = {id(array): tf.convert_to_tensor(array) for array in feed.arrays}
    arrays = [tensors[id(array)] for array in feed.arrays]
    size = feed.order.batch_size

    def batches_of(indices: tf.Tensor) -> tf.data.Dataset:
        # Splits the indices as `fit` does. Slicing batch by batch would take 4 % of a step of 8 ms.
        num_in_full = tf.size(indices) // size * size
        rest = tf.data.Dataset.from_tensors(indices[num_in_full:]).take(tf.size(indices, tf.int64) % size)
        return tf.data.Dataset.from_tensor_slices(tf.reshape(indices[:num_in_full], (-1, size))).concatenate(
            rest
        )

    def gather(indices: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return tuple(tf.gather(array, indices) for array in arrays)

    epochs = tf.data.Dataset.from_generator(
        feed.order.epochs, output_signature=tf.TensorSpec((None,), tf.int64)
    )
    batches = epochs.flat_map(batches_of).map(gather, num_parallel_calls=tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False  # they would copy the arrays
    return batches.with_options(options)


def strategy_for(cell: Cell) -> tf.distribute.Strategy:
    """Returns the strategy for the cell's devices. Call this function before TensorFlow has run anything.

    Raises UnsupportedError if TensorFlow finds too few devices, because it would use the CPU without an error.
    """
    if cell.device == Device.tpu:
        return _on_tpu(cell)
    kind = cell.device.upper()
    num = cell.devices
    if cell.device == Device.cpu and num > 1:  # logical devices, which share the threads of the CPU
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * num)
    devices = tf.config.list_logical_devices(kind)
    if len(devices) < num:
        instead = "use engine=pytorch, or pip install 'tensorflow[and-cuda]' in an environment without torch"
        raise UnsupportedError(
            f"device={cell.device}: TensorFlow finds {len(devices)} of {num} devices: {instead}"
        )
    names = [f"/{kind}:{index}" for index in range(num)]
    return (
        tf.distribute.OneDeviceStrategy(names[0])
        if len(names) == 1
        else tf.distribute.MirroredStrategy(names)
    )


def _on_tpu(cell: Cell) -> tf.distribute.Strategy:
    """Returns the strategy for the first core of a TPU if `devices=1`, otherwise for all cores.

    Raises UnsupportedError if TensorFlow finds no TPU, or if `devices` is neither 1 nor the TPU's number of cores.
    """
    assert cell.keras is not None
    name = cell.keras.tpu
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        cores = tf.config.list_logical_devices("TPU")
        first = cores[0].name
    except Exception as error:  # TensorFlow raises different errors for a missing device and a missing server
        why = one_line(message_of(error))
        raise UnsupportedError(f"engine.tpu={name}: TensorFlow reaches no TPU ({why})") from error
    if cell.devices == 1:
        return tf.distribute.OneDeviceStrategy(first)
    if cell.devices != len(cores):
        raise UnsupportedError(
            f"devices={cell.devices}: this TPU has {len(cores)} cores: use devices={len(cores)} or 1"
        )
    return tf.distribute.TPUStrategy(resolver)


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
        self.fetches_inside = backend.fetches_inside(self.feed)
        # TensorFlow's iterator copies the parts of a batch to the devices.
        self.copies_inside = backend.num_devices > 1
        # XLA compiles each size; without XLA, TensorFlow compiles once for all sizes.
        if settings.jit_compile:
            self.serving_sizes = powers_up_to(cell.batch_size)
        shape, self.num_classes = input_of(cell, data_folder)
        self.shape = channels_last(shape)
        self.steps_per_execution = settings.steps_per_execution
        self.samples_per_execution = cell.batch_size * settings.steps_per_execution
        if self.goal is not None:
            self.goal.begin(Span.build)
        make_optimizer = optimizer_named(cell.model.optimizer, networks.OPTIMIZERS)
        start = time.perf_counter()
        with backend.strategy.scope():
            self.network = network = networks.network_of(cell, self.shape, self.num_classes)
            dtype = FORMATS[cell.precision].stored if is_random(cell) else "uint8"
            self.model = networks.model_of(network, dtype)
            self.model.compile(
                optimizer=make_optimizer(learning_rate=cell.model.learning_rate) if self.trains else None,
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
            self.observations.training.before = self.norms()
        if self.goal is not None:
            assert isinstance(self.feed, ArrayFeed)
            self.goal.plan(self.feed.order, self.steps_per_execution)
            self._train_to_goal(self.goal)
        else:
            super().run_steps()
        if self.trains and not self.is_one_step:
            with self.observations.checking(WEIGHTS):
                self.observations.training.after = self.norms()

    def _train_to_goal(self, goal: GoalRun) -> None:
        tested = self.test_feed
        self.test_feed = feed_of(self.cell, VALIDATION, self.data_folder)
        epochs = (self.backend.executions(self.feed) for _ in range(self.cell.epochs))
        batches = chain.from_iterable(epochs)
        while not goal.is_over:
            goal.train(self, ExecutionStep(self, self.execute, goal.interval_of(batches)))
            goal.evaluate(self, self.new_test_step(), self.test_feed.num_samples)
        self.test_feed = tested
        goal.test(self, self.new_test_step(), self.test_feed.num_samples)

    def norms(self) -> Norms:
        """Returns the norm of each weight.

        On a TPU, returns an empty dict, because the TPU may be in another machine.
        """
        if self.cell.device == Device.tpu:
            return {}
        norms = {}
        for weight in self.model.trainable_variables:
            values = self.backend.parts_of(weight)[0].numpy()
            norms[weight.path] = float(np.linalg.norm(values.astype(np.float64)))
        return norms

    def new_step(self) -> ExecutionStep:
        if self.trains and self.fits:
            self.model.reset_metrics()
        executions = self.backend.executions(self.feed)
        if self.cell.data.pipeline == Pipeline.device:
            executions = cycle([self.backend.copy_in(next(executions))])
        return ExecutionStep(self, self.execute, executions)

    def new_test_step(self) -> ExecutionStep:
        self.model.reset_metrics()
        return ExecutionStep(self, self.test, self.backend.executions(self.test_feed))

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
        accuracy = results.get("accuracy")
        if accuracy is not None:
            # Keras adds up in fp32. The exact value is a whole number of samples, divided by their number.
            accuracy = round(accuracy * num_samples) / num_samples
        return self.checked_loss(results["loss"]), accuracy

    def observe(self) -> Observed:
        """Reports the precision and the device that were really used. In inference, also prepares the output check.

        The reported loss is Keras' mean over all steps so far.
        """
        backend = self.backend
        # The weight matrix of the first layer.
        weights = networks.layers_with_products(self.network)[0].weights[0]
        tensors = [*backend.parts_of(weights), *tf.nest.flatten(backend.last)]
        places = [tf.DeviceSpec.from_string(part.device) for part in tensors if isinstance(part, tf.Tensor)]
        products = self.observations.products = Products(
            flops=networks.formats_of(self.network),
            uncounted={"gradients"} if self.trains else set(),
            of="forward matrix products (each layer counted as one)",
        )
        expected = FORMATS[self.cell.precision].computed
        tf32 = self.cell.device == Device.gpu and tf.config.experimental.tensor_float_32_execution_enabled()
        loss = None
        if not self.trains:
            self.keep_output()
        elif not self.fits:
            loss = self.checked_loss(float(self.model.get_metrics_result()["loss"]))
        return Observed(
            device=" and ".join(sorted({place.device_type.lower() for place in places})),
            device_name=self.device_name(),
            precision=word_for(
                keras.backend.standardize_dtype(weights.dtype),
                products.ran_in(expected) or expected,
                tf32=tf32,
            ),
            num_devices=backend.num_devices,
            threads=tf.config.threading.get_intra_op_parallelism_threads(),
            loss=loss,
            work=self.work_of_step(
                lambda: networks.count(self.network, self.cell.batch_size, train=self.trains)
            ),
        )

    def observe_output(self) -> ObservedOutput:
        first = np.concatenate(
            [np.asarray(images) for images, *_ in islice(self.feed, self.steps_per_execution)]
        )
        # As many images as one execution needs.
        fed = first[np.arange(self.samples_per_execution) % len(first)]
        last = numbers_of(np.asarray(self.backend.last))
        unseen = unseen_images(len(fed), fed.shape[1:], floats=fed.dtype != np.uint8).astype(
            fed.dtype, copy=False
        )
        output = self.execute(self.backend.copy_in(self.backend.execution_of(unseen.copy())))
        return ObservedOutput(unseen, [numbers_of(np.asarray(output))], fed=fed, output_of_fed=[last])

    def new_network(self, state: None, precision: Precision) -> NewNetwork:
        """Returns a function that builds the cell's network again, on the CPU and from the same seed, and runs it."""
        cell = replace(self.cell, precision=precision)

        def run(batch: NDArray[Any], seed: int) -> Output:
            floats = batch / np.float32(255) if batch.dtype == np.uint8 else batch.astype(np.float32)
            with tf.device("/CPU:0"):
                network = networks.network_of(cell, self.shape, self.num_classes)
                return [numbers_of(np.asarray(network(floats, training=False)))]

        return run

    def warnings(self) -> Iterator[str]:
        num = self.steps_per_execution
        if num > 1:
            yield f"engine.steps_per_execution={num}: each latency is the time of {num} batches"
