"""The base class of Keras' backends. A backend runs and times Keras' compiled functions."""

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal

import keras
from numpy.typing import NDArray

from accelbench.engines.backend import BaseBackend
from accelbench.engines.keras.feed import Feed
from accelbench.measuring.runner import Compiles
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device

# (batches of one execution) -> logs or outputs, on the device.
Execute = Callable[[Any], Any]
Kind = Literal["train", "test", "predict"]  # parts of the names of Keras' functions


class Backend(BaseBackend, ABC):
    """The backend of a cell. It configures threads and devices before the framework runs.

    An execution is one call of a compiled function of Keras. It computes `engine.steps_per_execution` batches. Raises
    UnsupportedError if a device is missing.
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

    @abstractmethod
    def scope(self) -> AbstractContextManager[Any]:
        """The context in which models are created."""

    @abstractmethod
    def on_cpu(self) -> AbstractContextManager[Any]:
        """The context in which tensors are created and computed on the CPU."""

    @abstractmethod
    def executed(self, model: keras.Model, kind: Kind) -> Execute:
        """Returns Keras' compiled function for a step of the model. The function accepts an item of `executions`."""

    @abstractmethod
    def executions(self, feed: Feed, *, labelled: bool) -> Iterator[Any]:
        """Yields items: the batches of one execution each. `labelled`: whether batches have labels, as in training."""

    @abstractmethod
    def execution_of(self, images: NDArray[Any]) -> Any:
        """Converts images for one execution to the form of an item of `executions`. The item has no labels."""

    @abstractmethod
    def copy_in(self, batch: Any) -> Any:
        """Copies the batches of an execution to the device."""

    @abstractmethod
    def trained(self) -> list[NDArray[Any]]:
        """Returns arrays with the values of the model's trainable variables. The arrays may be views of the variables.

        If the model has several replicas, returns the values of the first replica.
        """

    @abstractmethod
    def kinds(self, weights: keras.Variable) -> Iterable[str]:
        """Returns the kinds of devices where `weights` and the last result are stored, as the backend names them."""

    @abstractmethod
    def uses_tf32(self) -> bool:
        """Is true if matrix products of fp32 numbers are computed in TF32."""

    num_devices = 1
    threads: int | None = None
    """The number of CPU threads that compute. None if the backend does not report the number."""

    def settle(self) -> None:
        """Makes sure that the model's variables have the values that the steps computed."""

    def fetches_inside(self, feed: Feed) -> bool:
        """Is true if the compiled function itself fetches the batches of training and testing steps."""
        return False

    def wait(self) -> None:
        """Waits until all launched steps have finished and the callbacks have read the logs."""
        if self.callbacks is not None:
            self.callbacks.on_epoch_end(0)

    def compiles(self) -> Compiles:
        """Returns the number of executions that compiled, and how long these executions took, compilation included."""
        return self._num_compiles, self._compile_s

    def function(self, model: keras.Model, kind: Kind) -> Execute:
        """Returns the compiled function that `fit`, `evaluate` or `predict` of Keras calls. Counts its compilations.

        The result of the function for `predict` stays on the device.
        """
        self.model = model
        step = getattr(model, f"{kind}_step")

        def counted(*args: Any, **kwargs: Any) -> Any:  # runs only while it is traced
            self._num_traces += 1
            return step(*args, **kwargs)

        setattr(model, f"{kind}_step", counted)
        getattr(model, f"make_{kind}_function")(force=True)
        execute = self.executed(model, kind)
        if kind == "train":
            execute = self._as_in_fit(model, execute)

        def timed(batch: Any) -> Any:
            traced = self._num_traces
            start = time.perf_counter()
            self.last = execute(batch)
            if self._num_traces != traced:
                self.wait()
                self._num_compiles += 1
                self._compile_s += time.perf_counter() - start
            return self.last

        return timed

    def _as_in_fit(self, model: keras.Model, execute: Execute) -> Execute:
        """Returns a function that runs the callbacks of `fit(verbose=0)` before and after `execute`.

        The callbacks take 0.1 ms or more per call.
        """
        callbacks = self.callbacks = keras.callbacks.CallbackList(model=model, add_history=True)
        callbacks.on_train_begin()

        def executed(batch: Any) -> Any:
            callbacks.on_train_batch_begin(0)
            logs = execute(batch)
            callbacks.on_train_batch_end(0, logs)  # other threads read the logs; `wait` waits for them
            return logs

        return executed


def backend_for(cell: Cell) -> Backend:
    """Creates the cell's backend. `KERAS_BACKEND` must have named this backend when the process started."""
    assert cell.keras is not None
    assert keras.backend.backend() == cell.keras.backend, f"this process runs {keras.backend.backend()}"
    module = importlib.import_module(f"accelbench.engines.keras.on_{cell.keras.backend}")
    return module.BACKEND(cell)
