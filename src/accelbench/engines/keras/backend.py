"""Runs and times Keras' compiled functions on TensorFlow."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import islice, repeat
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from accelbench.devices.cpu import usable_cores
from accelbench.engines.backend import BaseBackend
from accelbench.engines.keras.feed import ArrayFeed, Feed
from accelbench.errors import UnsupportedError
from accelbench.measuring.runner import Compiles
from accelbench.schema.cell import Cell
from accelbench.schema.text import message_of
from accelbench.schema.vocab import Device, Precision

ITERATORS = (tf.data.Iterator, tf.distribute.DistributedIterator)


# (batches of one execution) -> logs or outputs, on the device.
Execute = Callable[[Any], Any]
Kind = Literal["train", "test", "predict"]  # parts of the names of Keras' functions


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

    @property
    def threads(self) -> int | None:
        """The number of CPU threads that compute."""
        return tf.config.threading.get_intra_op_parallelism_threads()

    def scope(self) -> AbstractContextManager[Any]:
        """The context in which models are created."""
        return self.strategy.scope()

    def on_cpu(self) -> AbstractContextManager[Any]:
        """The context in which tensors are created and computed on the CPU."""
        return tf.device("/CPU:0")

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
        execute = self._executed(model, kind)
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
                callbacks.on_train_batch_end(0, self.last)  # other threads read the logs; `wait` waits for them
            if self._num_traces != traced:
                self.wait()
                self._num_compiles += 1
                self._compile_s += time.perf_counter() - start
            return self.last

        return timed

    def _executed(self, model: keras.Model, kind: Kind) -> Execute:
        function: Execute = getattr(model, f"{kind}_function")
        if kind != "predict":
            return lambda batch: function(batch if isinstance(batch, ITERATORS) else (batch,))
        if self.on_host and self.steps == self.num_devices == 1:
            # Compiles the same step as `predict_function`, but without the handling of lists and replicas, which takes
            # 3 % of a step of 1 ms.
            images = tf.function(model.predict_step, reduce_retracing=True, jit_compile=model.jit_compile or None)
            return lambda batches: images(tf.convert_to_tensor(batches[0][0]))
        return function

    def trained(self, model: keras.Model) -> list[NDArray[Any]]:
        """Returns arrays with the values of the model's trainable variables. The arrays may be views of the variables.

        If the model has several replicas, returns the values of the first replica.
        """
        parts = [self.strategy.experimental_local_results(weight.value) for weight in model.trainable_variables]
        return [of_replicas[0].numpy() for of_replicas in parts]

    def executions(self, feed: Feed, *, labelled: bool) -> Iterator[Any]:
        """Yields the batches of each execution. `labelled`: whether batches have labels, as in training.

        If TensorFlow's graph itself fetches the batches, yields TensorFlow's iterator for each execution instead.
        """
        inside = labelled and self.fetches_inside(feed)
        batches = iter(self._dataset(feed) if inside or self.num_devices > 1 else feed)
        if not inside:
            return batches if labelled else _lists(batches, self.steps)
        # Each execution gets the iterator itself.
        return repeat(batches) if feed.num_batches is None else repeat(batches, -(-feed.num_batches // self.steps))

    def _dataset(self, feed: Feed) -> Any:
        if feed not in self.datasets:  # made once, because it copies the arrays and traces functions
            if isinstance(feed, ArrayFeed):
                batches = _gathered(feed)
            else:
                signature = tuple(tf.TensorSpec((None, *part.shape[1:]), part.dtype) for part in feed.batches[0])
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

        This is so if an execution has several steps, or if the batches come from a data set.
        """
        return self.steps > 1 or isinstance(feed, ArrayFeed)

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

    def kinds(self, weights: keras.Variable) -> Iterable[str]:
        """Returns the kinds of devices where `weights` and the last result are stored, as TensorFlow names them."""
        names = [part.device for part in self.strategy.experimental_local_results(weights.value)]
        names += [part.device for part in tf.nest.flatten(self.last) if isinstance(part, tf.Tensor)]
        return [str(tf.DeviceSpec.from_string(name).device_type) for name in names]

    def uses_tf32(self) -> bool:
        """Is true if matrix products of fp32 numbers are computed in TF32."""
        allowed: bool = tf.config.experimental.tensor_float_32_execution_enabled()
        return allowed and self.cell.device == Device.gpu

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
        return tf.data.Dataset.from_tensor_slices(tf.reshape(indices[:num_in_full], (-1, size))).concatenate(rest)

    def gather(indices: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return tuple(tf.gather(array, indices) for array in arrays)

    epochs = tf.data.Dataset.from_generator(feed.order.epochs, output_signature=tf.TensorSpec((None,), tf.int64))
    batches = epochs.flat_map(batches_of).map(gather, num_parallel_calls=tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False  # they would copy the arrays
    return batches.with_options(options)


def _lists(batches: Iterator[Any], num: int) -> Iterator[list[Any]]:
    while several := list(islice(batches, num)):
        yield several


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
        raise UnsupportedError(f"device={cell.device}: TensorFlow finds {len(devices)} of {num} devices: {instead}")
    names = [f"/{kind}:{index}" for index in range(num)]
    return tf.distribute.OneDeviceStrategy(names[0]) if len(names) == 1 else tf.distribute.MirroredStrategy(names)


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
    except Exception as error:  # TensorFlow raises different errors for a missing device and a missing server
        why = " ".join(message_of(error).split())[:200] or type(error).__name__
        raise UnsupportedError(f"engine.tpu={name}: TensorFlow reaches no TPU ({why})") from error
    if not cores:
        raise UnsupportedError(f"engine.tpu={name}: TensorFlow finds no TPU core by this name: use another name")
    if cell.devices == 1:
        return tf.distribute.OneDeviceStrategy(cores[0].name)
    if cell.devices != len(cores):
        raise UnsupportedError(
            f"devices={cell.devices}: this TPU has {len(cores)} cores: use devices={len(cores)} or 1"
        )
    return tf.distribute.TPUStrategy(resolver)
