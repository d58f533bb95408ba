"""Keras' backend JAX."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import keras
import numpy as np
from numpy.typing import NDArray

from accelbench.engines.keras.backends import Backend, Execute, Kind
from accelbench.engines.keras.feed import Feed
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device, Precision

# Keras' names of the parts of a step's state.
STATES: dict[Kind, tuple[str, ...]] = {
    "train": ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables"),
    "test": ("trainable_variables", "non_trainable_variables", "metrics_variables"),
    "predict": ("trainable_variables", "non_trainable_variables"),
}


class Jax(Backend):
    """Runs Keras' functions on one JAX device. A step gets the variables as an argument and returns new values."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        jax.config.update("jax_enable_x64", cell.precision == Precision.fp64)
        # By default, JAX computes fp32 in TF32 on a GPU, and in bf16 on a TPU.
        precision = "tensorfloat32" if cell.precision == Precision.tf32 else "float32"
        jax.config.update("jax_default_matmul_precision", precision)
        devices = [device for device in jax.local_devices() if device.platform == cell.device]
        if not devices:
            build = "tpu" if cell.device == Device.tpu else "cuda12"
            raise UnsupportedError(f"device={cell.device}: JAX finds no such device: run pip install 'jax[{build}]'")
        self.device = devices[0]
        self.state: tuple[list[Any], ...] | None = None  # the model's variables while steps run
        self.names: tuple[str, ...] = ()  # names of the parts of the state

    def scope(self) -> AbstractContextManager[Any]:
        return jax.default_device(self.device)

    def on_cpu(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.on_host else jax.default_device(jax.local_devices(backend="cpu")[0])

    def executed(self, model: keras.Model, kind: Kind) -> Execute:
        function = getattr(model, f"{kind}_function")
        names = STATES[kind]

        def execute(batch: Any) -> Any:
            if self.state is None:
                self.state = model._get_jax_state(**dict.fromkeys(names, True), purge_model_variables=True)
                self.names = names
            result, self.state = function(self.state, iter((batch,)))
            return result

        return execute

    def settle(self) -> None:
        model = self.model
        if self.state is not None:
            model._jax_state = dict(zip(self.names, self.state, strict=True))
            model._jax_state_synced = False
            model.jax_state_sync()
            self.state = model._jax_state = None

    def trained(self) -> list[NDArray[Any]]:
        """Returns the values of the trainable variables. While steps run, reads them from the first part of `state`."""
        values = [weight.value for weight in self.model.trainable_variables] if self.state is None else self.state[0]
        return [np.asarray(value) for value in values]

    def executions(self, feed: Feed, *, labelled: bool) -> Iterator[Any]:
        return iter(feed)

    def execution_of(self, images: NDArray[Any]) -> Any:
        return (images,)

    def copy_in(self, batch: Any) -> Any:
        return jax.device_put(batch, self.device)

    def wait(self) -> None:
        super().wait()
        jax.block_until_ready((self.last, self.state))

    def kinds(self, weights: keras.Variable) -> Iterable[str]:
        arrays = [weights.value, *jax.tree.leaves(self.last)]
        return [device.platform for array in arrays for device in array.devices()]

    def uses_tf32(self) -> bool:
        return self.cell.precision == Precision.tf32 and self.cell.device == Device.gpu

    def device_name(self) -> str | None:
        return None if self.on_host else str(self.device.device_kind)

    def peak_memory_bytes(self) -> int | None:
        stats = None if self.on_host else self.device.memory_stats()
        return int(stats["peak_bytes_in_use"]) if stats else None


BACKEND = Jax
