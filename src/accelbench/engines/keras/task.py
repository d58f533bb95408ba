"""What a network is trained for: its input, loss, metrics and optimiser, compiled as for Keras' own `fit`."""

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, losses, ops, optimizers

from accelbench.errors import UnknownChoiceError
from accelbench.schema.cell import ModelSpec

# Keras' own defaults, which the studies used; the learning rate is the model's.
OPTIMIZERS: dict[str, Callable[..., keras.Optimizer]] = {"adam": optimizers.Adam, "sgd": optimizers.SGD}


@keras.saving.register_keras_serializable("accelbench")
class Scale(layers.Layer):
    """Whole numbers from 0 to 255 as floats from 0 to 1, in the policy's dtype."""

    def call(self, images: Any) -> Any:
        """`images` / 255."""
        return ops.cast(images, self.compute_dtype) / 255


def model_of(network: keras.Sequential, dtype: str) -> keras.Sequential:
    """The network with what prepares its input.

    Args:
        network: takes floats.
        dtype: of the images as the feed has them: `uint8`, or of floats that are taken as they are.
    """
    scale = [Scale()] if dtype == "uint8" else []
    return keras.Sequential([keras.Input(network.input_shape[1:], dtype=dtype), *scale, network])


def optimizer_of(model: ModelSpec) -> keras.Optimizer:
    """The model's optimiser."""
    if model.optimizer not in OPTIMIZERS:
        raise UnknownChoiceError("model.optimizer", model.optimizer, OPTIMIZERS)
    return OPTIMIZERS[model.optimizer](learning_rate=model.learning_rate)


def loss_of(spec: ModelSpec, network: keras.Sequential, dtype: str) -> Any:
    """Cross-entropy of the logits, binary where there is one alone, or the mean squared error of the images."""
    if spec.is_own("autoencoder"):
        return scaled_squared_error if dtype == "uint8" else losses.MeanSquaredError()
    if network.output_shape[-1] == 1:
        return losses.BinaryCrossentropy(from_logits=True)
    return losses.SparseCategoricalCrossentropy(from_logits=True)


def metrics_of(spec: ModelSpec, network: keras.Sequential) -> list[Any]:
    """The share of right answers, where a network gives any."""
    if spec.is_own("autoencoder"):
        return []
    return [right_sign if network.output_shape[-1] == 1 else keras.metrics.SparseCategoricalAccuracy(name="accuracy")]


def scaled_squared_error(images: Any, output: Any) -> Any:
    """The squared error of each pixel; `images` are whole numbers from 0 to 255."""
    return losses.mean_squared_error(images / 255, output)


def right_sign(labels: Any, logits: Any) -> Any:
    """Whether each logit is above 0 where its label, 0 or 1, is 1."""
    return ops.equal(ops.cast(labels, "bool"), ops.reshape(logits, ops.shape(labels)) > 0)


right_sign.__name__ = "accuracy"
