"""What differs between Keras' backends: how steps run, how they are waited for, and where they ran."""

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

# Takes the batches of one execution; returns logs or outputs, on the device.
Execute = Callable[[Any], Any]
Kind = Literal["train", "test", "predict"]  # as in the names of Keras' functions


class Backend(BaseBackend, ABC):
    """A cell's backend, which fixes threads and devices before the framework runs; an UnsupportedError if it can't."""

    queues = True  # TensorFlow takes up to a tenth of a millisecond to find that all devices are done

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.on_host = cell.device == Device.cpu
        self.last: Any = None  # what the last execution returned
        self.callbacks: keras.callbacks.CallbackList | None = None  # are called around each training step
        # How often a step was traced: several times in one compilation of several steps or devices.
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
        """The function that Keras has made of the model's step, for an item of `executions`."""

    @abstractmethod
    def executions(self, feed: Feed, *, labelled: bool) -> Iterator[Any]:
        """The feed's batches, one item per execution; `labelled` ones are for training or testing."""

    @abstractmethod
    def execution_of(self, images: NDArray[Any]) -> Any:
        """The images of a whole execution, as an unlabelled item of `executions`."""

    @abstractmethod
    def copy_in(self, batch: Any) -> Any: ...

    @abstractmethod
    def trained(self, model: keras.Model) -> list[NDArray[Any]]:
        """The values of the model's trainable variables, perhaps views of them; of several replicas, the first's."""

    @abstractmethod
    def kinds(self, weights: keras.Variable) -> Iterable[str]:
        """The backend's words for the devices that have `weights` and the last result."""

    @abstractmethod
    def uses_tf32(self) -> bool: ...

    num_devices = 1
    threads: int | None = None
    """CPU threads that compute; None if the backend does not report it."""

    def settle(self, model: keras.Model) -> None:
        """Gives the model the variables that its steps have updated."""

    def fetches_inside(self, feed: Feed) -> bool:
        """Whether training and testing steps fetch their batches inside the compiled function."""
        return False

    def wait(self) -> None:
        """Returns when everything launched is done, including the callbacks' reading of logs."""
        if self.callbacks is not None:
            self.callbacks.on_epoch_end(0)

    def compiles(self) -> Compiles:
        """The number of executions that compiled something, and their seconds, including the run itself."""
        return self._num_compiles, self._compile_s

    def function(self, model: keras.Model, kind: Kind) -> Execute:
        """Keras' own step as `fit`, `evaluate` or `predict` calls it; the result of `predict` stays on the device."""
        step = getattr(model, f"{kind}_step")

        def counted(*args: Any, **kwargs: Any) -> Any:  # called only to be traced
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
        """`execute` with the callbacks of `fit(verbose=0)` around each call, which take 0.1 ms or more."""
        callbacks = self.callbacks = keras.callbacks.CallbackList(model=model, add_history=True)
        callbacks.on_train_begin()

        def executed(batch: Any) -> Any:
            callbacks.on_train_batch_begin(0)
            logs = execute(batch)
            callbacks.on_train_batch_end(0, logs)  # other threads read the logs, until `wait`
            return logs

        return executed


def backend_for(cell: Cell) -> Backend:
    """The cell's backend; the process must have been started for it (`KERAS_BACKEND`)."""
    assert cell.keras is not None, "the configuration gives every Keras cell its settings"
    assert keras.backend.backend() == cell.keras.backend, "the registry starts a host for each backend"
    module = importlib.import_module(f"accelbench.engines.keras.on_{cell.keras.backend}")
    return module.BACKEND(cell)
