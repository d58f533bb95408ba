"""What differs between Keras' backends: how steps run, how they are waited for, and where they ran."""

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from accelbench.engines.cell_run import BaseBackend
from accelbench.engines.keras.feed import Feed
from accelbench.measuring.runner import Compiles
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import KerasBackend

MODULES: Mapping[KerasBackend, str] = {
    KerasBackend.tensorflow: "accelbench.engines.keras.on_tensorflow",
    KerasBackend.jax: "accelbench.engines.keras.on_jax",
}
# Takes the batches of one execution; returns logs or outputs, on the device.
Execute = Callable[[Any], Any]


class Backend(BaseBackend, ABC):
    """One cell's backend. To be created first, since it fixes threads and devices.

    Raises:
        UnsupportedError: the cell can't run on this backend, with the reason.
    """

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.last: Any = None  # what the last execution returned
        self.callbacks: keras.callbacks.CallbackList | None = None  # called around each training step
        # How often a step was traced: several times in one compilation of several steps or devices.
        self._num_traces = 0
        self._num_compiles, self._compile_s = 0, 0.0

    @abstractmethod
    def scope(self) -> AbstractContextManager[Any]:
        """The context in which models are created."""

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
        """Gives the model the variables that its steps have updated."""

    @abstractmethod
    def trained(self, model: keras.Model) -> list[NDArray[Any]]:
        """The values of the model's trainable variables, after its last step; of several equal replicas, the first's.

        They may share memory with the variables: to be read before a further step.
        """

    @abstractmethod
    def executions(self, feed: Feed, *, labelled: bool) -> Iterator[Any]:
        """The feed's batches, one item per execution; `labelled` ones are for training or testing."""

    @abstractmethod
    def copy_in(self, batch: Any) -> Any:
        """The batches of one execution on the device."""

    @abstractmethod
    def wait(self) -> None:
        """Returns when everything launched is done, including the callbacks' reading of logs."""
        if self.callbacks is not None:
            self.callbacks.on_epoch_end(0)

    def fetches_inside(self, feed: Feed) -> bool:
        """Whether training and testing steps fetch their batches inside the compiled function."""
        return False

    @abstractmethod
    def ran_on(self, weights: keras.Variable) -> str:
        """The word for the device that has `weights` and the last result; both words, if they differ."""

    @abstractmethod
    def uses_tf32(self) -> bool:
        """Whether fp32 matrix products run in TF32."""

    @abstractmethod
    def device_name(self) -> str | None:
        """The accelerator's name; None for the CPU, which `devices.registry` knows."""

    @abstractmethod
    def peak_memory_bytes(self) -> int | None:
        """The allocator's peak since the process started; None if it reports none."""

    @property
    @abstractmethod
    def threads(self) -> int | None:
        """CPU threads that compute; None if the backend does not report it."""

    @property
    @abstractmethod
    def num_devices(self) -> int:
        """Number of devices that compute."""

    @abstractmethod
    def on_cpu(self) -> AbstractContextManager[Any]:
        """The context in which tensors are created and computed on the CPU."""

    def compiles(self) -> Compiles:
        """The number of executions that compiled something, and their seconds, including the run itself."""
        return self._num_compiles, self._compile_s

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """`step` with a counter: Keras calls it only to trace it."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._num_traces += 1
            return step(*args, **kwargs)

        return counted

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

    def _timed(self, execute: Execute) -> Execute:
        """`execute`, which keeps its result, and adds its seconds to `compiles` if it traced something."""

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


class ExecutionStep:
    """One call of a compiled function, which runs `engine.steps_per_execution` steps.

    Args:
        execute: the function.
        executions: the batches, one item per execution.
        backend: the device.
        num_samples: per execution, apart from a short last one.
        copies_out: whether the result is copied to the host, as a prediction is.
    """

    def __init__(
        self, execute: Execute, executions: Iterator[Any], backend: Backend, num_samples: int, *, copies_out: bool
    ) -> None:
        self.executions = executions
        self.copies_out = copies_out and not backend.on_host
        self.compute = execute
        self.copy_in = _unchanged if backend.on_host else backend.copy_in
        self._num_samples = num_samples

    def fetch(self) -> Any:
        """The next execution's batches, on the host."""
        return next(self.executions)

    def copy_out(self, result: Any) -> None:
        """Copies the outputs to the host."""
        if self.copies_out:
            np.asarray(result)

    def num_samples(self, batch: Any) -> int:
        """Samples in one execution."""
        return self._num_samples


def _unchanged(batch: Any) -> Any:
    return batch
