"""Keras on JAX."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import keras
import numpy as np
from numpy.typing import NDArray

from accelbench.engines.keras.backends import Backend, Execute
from accelbench.engines.keras.feed import Feed
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device, Precision

WORDS = {"cpu": Device.cpu, "gpu": Device.gpu, "tpu": Device.tpu}


def make(cell: Cell) -> "Jax":
    """The cell's backend; to be called before JAX has run anything, since it fixes number formats."""
    return Jax(cell)


class Jax(Backend):
    """Keras' functions on one JAX device; each step takes the variables as state and returns the updated state."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        jax.config.update("jax_enable_x64", cell.precision == Precision.fp64)
        # By default fp32 is TF32 on a GPU, and bf16 on a TPU.
        precision = "tensorfloat32" if cell.precision == Precision.tf32 else "float32"
        jax.config.update("jax_default_matmul_precision", precision)
        found = [device for device in jax.local_devices() if WORDS.get(device.platform) == cell.device]
        if not found:
            raise UnsupportedError(
                f"device={cell.device}: JAX finds none: it needs a build for it "
                f"(pip install 'jax[{'tpu' if cell.device == Device.tpu else 'cuda12'}]')"
            )
        self.device = found[0]
        self.on_host = cell.device == Device.cpu
        self.state: tuple[list[Any], ...] | None = None  # the model's variables while steps run
        self.names: tuple[str, ...] = ()  # Keras' names for the parts of the state

    def scope(self) -> AbstractContextManager[Any]:
        scope: AbstractContextManager[Any] = jax.default_device(self.device)
        return scope

    def trainer(self, model: keras.Model) -> Execute:
        model.train_step = self._counted(model.train_step)
        model.make_train_function(force=True)
        names = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")
        return self._timed(self._as_in_fit(model, self._stateful(model, model.train_function, names)))

    def tester(self, model: keras.Model) -> Execute:
        model.test_step = self._counted(model.test_step)
        model.make_test_function(force=True)
        names = ("trainable_variables", "non_trainable_variables", "metrics_variables")
        return self._timed(self._stateful(model, model.test_function, names))

    def predictor(self, model: keras.Model) -> Execute:
        model.predict_step = self._counted(model.predict_step)
        model.make_predict_function(force=True)
        names = ("trainable_variables", "non_trainable_variables")
        return self._timed(self._stateful(model, model.predict_function, names))

    def _stateful(self, model: keras.Model, function: Callable[..., Any], names: tuple[str, ...]) -> Execute:
        """`function` with the model's variables as its state, taken from the model before the first step."""

        def execute(batch: Any) -> Any:
            if self.state is None:
                self.state = model._get_jax_state(**dict.fromkeys(names, True), purge_model_variables=True)
                self.names = names
            result, self.state = function(self.state, iter((batch,)))
            return result

        return execute

    def settle(self, model: keras.Model) -> None:
        """Gives the model the variables that its steps have updated."""
        if self.state is not None:
            model._jax_state = dict(zip(self.names, self.state, strict=True))
            model._jax_state_synced = False
            model.jax_state_sync()
            self.state = model._jax_state = None

    def trained(self, model: keras.Model) -> list[NDArray[Any]]:
        """Of the state while there is one, whose first part they are."""
        values = [each.value for each in model.trainable_variables] if self.state is None else self.state[0]
        return [np.asarray(value) for value in values]

    def executions(self, feed: Feed, *, labelled: bool) -> Iterator[Any]:
        return iter(feed)

    def copy_in(self, batch: Any) -> Any:
        return jax.device_put(batch, self.device)

    def wait(self) -> None:
        """Waits for the last step's result and the updated variables."""
        super().wait()
        jax.block_until_ready((self.last, self.state))

    def ran_on(self, weights: keras.Variable) -> str:
        """From the devices that hold the arrays, as JAX reports them."""
        arrays = [weights.value, *jax.tree.leaves(self.last)]
        kinds = {device.platform for array in arrays for device in array.devices()}
        return " and ".join(sorted(WORDS.get(kind, kind) for kind in kinds))

    def uses_tf32(self) -> bool:
        return self.cell.precision == Precision.tf32 and self.cell.device == Device.gpu

    def device_name(self) -> str | None:
        return None if self.on_host else str(self.device.device_kind)

    def peak_memory_bytes(self) -> int | None:
        """As the allocator reports it; None on the CPU."""
        stats = None if self.on_host else self.device.memory_stats()
        return int(stats["peak_bytes_in_use"]) if stats else None

    @property
    def threads(self) -> int | None:
        """None: JAX does not report it."""
        return None

    @property
    def num_devices(self) -> int:
        return 1

    def on_cpu(self) -> AbstractContextManager[Any]:
        """The context in which the CPU is JAX's default device."""
        if self.on_host:
            return nullcontext()
        context: AbstractContextManager[Any] = jax.default_device(jax.local_devices(backend="cpu")[0])
        return context
