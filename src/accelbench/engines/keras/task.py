"""What a network is trained on, as for Keras' own `fit`: its input, loss, metrics and optimiser; and its weights."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import keras
import ml_dtypes  # noqa: F401  # adds bfloat16 to NumPy
import numpy as np
from keras import layers, losses, ops, optimizers
from numpy.typing import NDArray

from accelbench.engines.models import optimizer_named
from accelbench.measuring.training import State
from accelbench.schema.workload import ModelSpec

# With Keras' defaults, which the studies used, apart from the learning rate. No study used AdamW: it has PyTorch's.
OPTIMIZERS: dict[str, Callable[..., keras.Optimizer]] = {
    "adam": optimizers.Adam,
    "adamw": partial(optimizers.AdamW, weight_decay=0.01, epsilon=1e-8),
    "sgd": optimizers.SGD,
}


@keras.saving.register_keras_serializable("accelbench")
class Scale(layers.Layer):
    """Scales whole numbers from 0 to 255 to floats from 0 to 1, in the policy's dtype."""

    def call(self, images: Any) -> Any:
        """`images` / 255."""
        return ops.cast(images, self.compute_dtype) / 255


def model_of(network: keras.Sequential, dtype: str) -> keras.Sequential:
    """The network with the layer that scales its input.

    Args:
        network: takes floats.
        dtype: of the feed's images: `uint8`, which are scaled, or a dtype of floats, which are not.
    """
    scale = [Scale()] if dtype == "uint8" else []
    return keras.Sequential([keras.Input(network.input_shape[1:], dtype=dtype), *scale, network])


def optimizer_of(model: ModelSpec) -> keras.Optimizer:
    """The model's optimiser."""
    return optimizer_named(model.optimizer, OPTIMIZERS)(learning_rate=model.learning_rate)


def loss_of(spec: ModelSpec, network: keras.Sequential, dtype: str) -> Any:
    """Cross-entropy of the logits, binary for a single logit; for the autoencoder the mean squared error."""
    if spec.is_own("autoencoder"):
        return scaled_squared_error if dtype == "uint8" else losses.MeanSquaredError()
    if network.output_shape[-1] == 1:
        return losses.BinaryCrossentropy(from_logits=True)
    return losses.SparseCategoricalCrossentropy(from_logits=True)


def metrics_of(spec: ModelSpec, network: keras.Sequential) -> list[Any]:
    """The accuracy, for a network that classifies."""
    if spec.is_own("autoencoder"):
        return []
    return [right_sign if network.output_shape[-1] == 1 else keras.metrics.SparseCategoricalAccuracy(name="accuracy")]


def scaled_squared_error(images: Any, output: Any) -> Any:
    """The squared error of each pixel; `images` are whole numbers from 0 to 255."""
    return losses.mean_squared_error(images / 255, output)


def right_sign(labels: Any, logits: Any) -> Any:
    """Whether the sign of each logit agrees with its label: above 0 for label 1, else label 0."""
    return ops.equal(ops.cast(labels, "bool"), ops.reshape(logits, ops.shape(labels)) > 0)


right_sign.__name__ = "accuracy"


BITS = {2: np.int16, 4: np.int32, 8: np.int64}  # by the bytes of a number


def states(names: Iterable[str], tensors: Iterable[NDArray[np.floating]]) -> dict[str, State]:
    """The states of tensors with these names: every number is read once."""
    return {name: _state(tensor) for name, tensor in zip(names, tensors, strict=True)}


def _state(tensor: NDArray[np.floating]) -> State:
    bits = np.ascontiguousarray(tensor).view(BITS[tensor.itemsize])
    values = tensor.astype(np.float32) if tensor.itemsize < 4 else tensor
    # A NaN makes both of them NaN.
    return State(int(bits.sum(dtype=np.int64)), max(abs(float(values.min())), abs(float(values.max()))))


def learning_rate(optimizer: keras.Optimizer) -> float:
    """The optimiser's own, or that of the one that it wraps to scale the loss."""
    return float(getattr(optimizer, "inner_optimizer", optimizer).learning_rate.numpy())


def frozen(network: keras.Model) -> list[str]:
    """The names of the layers that have weights and say that they are not trained."""
    return [layer.name for layer in network.layers if layer.weights and not layer.trainable]
