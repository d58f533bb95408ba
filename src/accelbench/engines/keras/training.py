"""The weights of a network in Keras while it trains; see `measuring.training`."""

from collections.abc import Iterable

import keras
import ml_dtypes  # noqa: F401  # adds bfloat16 to NumPy
import numpy as np
from numpy.typing import NDArray

from accelbench.measuring.training import State

BITS = {2: np.int16, 4: np.int32, 8: np.int64}  # by the bytes of a number


def states(names: Iterable[str], tensors: Iterable[NDArray[np.floating]]) -> dict[str, State]:
    """The states of tensors with these names: every number is read once."""
    return {name: _state(tensor) for name, tensor in zip(names, tensors, strict=True)}


def _state(tensor: NDArray[np.floating]) -> State:
    bits = np.ascontiguousarray(tensor).view(BITS[tensor.itemsize])
    values = tensor.astype(np.float32) if tensor.itemsize < 4 else tensor
    # A number that is none makes both of them none.
    return State(int(bits.sum(dtype=np.int64)), max(abs(float(values.min())), abs(float(values.max()))))


def learning_rate(optimizer: keras.Optimizer) -> float:
    """The optimiser's own, or that of the one that it wraps to scale the loss."""
    return float(getattr(optimizer, "inner_optimizer", optimizer).learning_rate.numpy())


def frozen(network: keras.Model) -> list[str]:
    """The names of the layers that have weights and say that they are not trained."""
    return [layer.name for layer in network.layers if layer.weights and not layer.trainable]
