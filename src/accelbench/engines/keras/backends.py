"""What differs between Keras' backends: how steps are run and waited for, and where they ran."""

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import keras

from accelbench.engines.cell_run import BaseBackend
from accelbench.engines.keras.feed import Feed
from accelbench.measuring.clock import Compiles
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import KerasBackend

MODULES: Mapping[KerasBackend, str] = {
    KerasBackend.tensorflow: "accelbench.engines.keras.on_tensorflow",
    KerasBackend.jax: "accelbench.engines.keras.on_jax",
}
# What one call takes and gives: the batches of one execution, and logs or outputs on the device.
Execute = Callable[[Any], Any]


class Backend(BaseBackend, ABC):
    """One cell's backend. Made before anything else of it: it fixes threads and devices.

    Raises:
        UnsupportedError: the cell can't run on it, with the reason.
    """

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.last: Any = None  # what the last execution gave
        self.callbacks: keras.callbacks.CallbackList | None = None  # around training steps
        self._num_traces = 0  # calls of a step: several in one compilation, of several steps or devices
        self._num_compiles, self._compile_s = 0, 0.0

    @abstractmethod
    def scope(self) -> AbstractContextManager[Any]:
        """Where models are made."""

    @abstractmethod
    def trainer(self, model: keras.Model) -> Execute:
        """Keras' own training step, as `fit` calls it."""

    @abstractmethod
    def tester(self, model: keras.Model) -> Execute:
        """Keras' own evaluation step, as `evaluate` calls it."""

    @abstractmethod
    def predictor(self, model: keras.Model) -> Execute:
        """Keras' own prediction step, as `predict` calls it; its result stays on the device."""

    @abstractmethod
    def settle(self, model: keras.Model) -> None:
        """Has the model hold what its steps made of its variables."""

    @abstractmethod
    def executions(self, feed: Feed, *, labelled: bool) -> Iterator[Any]:
        """The feed's batches, as one execution after another takes them; `labelled` ones train or test."""

    @abstractmethod
    def copy_in(self, batch: Any) -> Any:
        """The batches of one execution on the device."""

    @abstractmethod
    def wait(self) -> None:
        """Returns when everything launched is done, what callbacks do with the logs included."""
        if self.callbacks is not None:
            self.callbacks.on_epoch_end(0)

    def fetches_inside(self, feed: Feed) -> bool:
        """Whether training and testing steps fetch their batches themselves."""
        return False

    @abstractmethod
    def ran_on(self, weights: keras.Variable) -> str:
        """The device's word for where `weights` are and the last result came from; both, where they differ."""

    @abstractmethod
    def uses_tf32(self) -> bool:
        """Whether fp32's matrix work runs in TF32."""

    @abstractmethod
    def device_name(self) -> str | None:
        """The accelerator's name; None for the CPU, whose name its registry knows."""

    @abstractmethod
    def peak_memory_bytes(self) -> int | None:
        """The allocator's peak since the process started; None where there is none to ask."""

    @property
    @abstractmethod
    def threads(self) -> int | None:
        """CPU threads that compute; None where the backend does not tell."""

    @property
    @abstractmethod
    def num_devices(self) -> int:
        """Devices that compute."""

    @abstractmethod
    def on_cpu(self) -> AbstractContextManager[Any]:
        """Where what is made and computed is on the CPU."""

    def compiles(self) -> Compiles:
        """How many executions traced and compiled something, and their seconds, each run included."""
        return self._num_compiles, self._compile_s

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """`step`, which Keras calls only to trace it, counted."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._num_traces += 1
            return step(*args, **kwargs)

        return counted

    def _as_in_fit(self, model: keras.Model, execute: Execute) -> Execute:
        """`execute` with what `fit(verbose=0)` has around each call: a tenth of a millisecond and more."""
        callbacks = self.callbacks = keras.callbacks.CallbackList(model=model, add_history=True)
        callbacks.on_train_begin()

        def executed(batch: Any) -> Any:
            callbacks.on_train_batch_begin(0)
            logs = execute(batch)
            callbacks.on_train_batch_end(0, logs)  # other threads read the logs, until `wait`
            return logs

        return executed

    def _timed(self, execute: Execute) -> Execute:
        """`execute`, whose result is kept, and whose seconds count where it traced something."""

        def timed(batch: Any) -> Any:
            traced, start = self._num_traces, time.perf_counter()
            self.last = execute(batch)
            if self._num_traces != traced:
                self.wait()
                self._num_compiles += 1
                self._compile_s += time.perf_counter() - start
            return self.last

        return timed


def backend_for(cell: Cell) -> Backend:
    """The cell's backend; the process must have been started for it (`KERAS_BACKEND`)."""
    assert cell.keras is not None, "the configuration gives every Keras cell its settings"
    assert keras.backend.backend() == cell.keras.backend, "the registry starts a host for each backend"
    made: Backend = importlib.import_module(MODULES[cell.keras.backend]).make(cell)
    return made
