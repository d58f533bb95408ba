"""Builds the networks of the published studies (docs/studies.md) in Keras, with losses, metrics and optimisers.

The PyTorch engine builds the same layers.

Each network is built for images of one shape, (height, width) or (height, width, channels), with values in [0, 1]. It
returns logits of shape (batch, classes). For two classes, the network of study 002 returns (batch, 1). The autoencoder
returns images. Softmax and sigmoid are parts of the loss. Study 004's network ended
with sigmoids. It was trained as here, because Keras on TensorFlow computes the loss from the inputs of such sigmoids.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers, losses, ops, optimizers
from numpy.typing import NDArray

from accelbench.engines.formats import FORMATS
from accelbench.engines.images import Shape, channels_first, check_fits, optimizer_named, own_network
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Precision
from accelbench.schema.workload import ModelSpec

POLICIES = {
    word: formats.computed if formats.stored == formats.computed else f"mixed_{formats.computed}"
    for word, formats in FORMATS.items()
}
# With Keras' defaults, as in the studies, except for the learning rate. AdamW has PyTorch's defaults: no study used it.
OPTIMIZERS: dict[str, Callable[..., keras.Optimizer]] = {
    "adam": optimizers.Adam,
    "adamw": partial(optimizers.AdamW, weight_decay=0.01, epsilon=1e-8),
    "sgd": optimizers.SGD,
}
Layers = list[keras.Layer]


def _dense(widths: Sequence[int], dropout: float) -> Layers:
    """Returns dense layers. A ReLU follows each layer. If `dropout` is above 0, dropout follows the ReLU."""
    stack: Layers = []
    for width in widths:
        stack.append(layers.Dense(width, activation="relu"))
        if dropout:
            stack.append(layers.Dropout(dropout))
    return stack


def _convolutions(channels: Sequence[int], padding: str = "same", *, normalised: bool = False) -> Layers:
    """Returns 3x3 convolutions with ReLU. Max-pooling follows each convolution.

    If `normalised`, there is batch normalisation between each convolution and its max-pooling.
    """
    stack: Layers = []
    for num in channels:
        stack.append(layers.Conv2D(num, 3, padding=padding, activation="relu"))
        if normalised:
            stack.append(layers.BatchNormalization())
        stack.append(layers.MaxPooling2D())
    return stack


def mlp(shape: Shape, num_classes: int, *, widths: Sequence[int] = (512,) * 4, dropout: float = 0.45) -> Layers:
    """Studies 001 and 004: dense layers of `widths` units."""
    return [layers.Flatten(), *_dense(widths, dropout), layers.Dense(num_classes)]


def cnn(shape: Shape, num_classes: int, *, channels: int = 64, dropout: float = 0.2) -> Layers:
    """Study 001: four convolutions. The first three are padded, the fourth is not."""
    stack: Layers = [layers.Reshape((*shape, 1))] if len(shape) == 2 else []
    stack += [*_convolutions([channels] * 3), layers.Conv2D(channels, 3, activation="relu")]
    return [*stack, layers.Flatten(), layers.Dropout(dropout), layers.Dense(num_classes)]


# In recurrent layers, dropout uses one mask per sample for all time steps.


def rnn(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> Layers:
    """Study 001: three recurrent tanh layers over the rows of a grey image, with dropout before each layer."""
    stack = [layers.SimpleRNN(units, dropout=dropout, return_sequences=True) for _ in range(2)]
    return [*stack, layers.SimpleRNN(units, dropout=dropout), layers.Dense(num_classes)]


def lstm(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> Layers:
    """Study 001: three LSTM layers over the rows of a grey image, with dropout before the last two."""
    first = layers.LSTM(units, return_sequences=True)
    second = layers.LSTM(units, dropout=dropout, return_sequences=True)
    return [first, second, layers.LSTM(units, dropout=dropout), layers.Dense(num_classes)]


def autoencoder(shape: Shape, num_classes: int, *, code: int = 16) -> Layers:
    """Study 001: an encoder that returns `code` numbers, and a decoder. Both apply dense layers to each pixel."""
    height, width = shape
    encoder = [layers.Reshape((*shape, 1)), layers.Dense(32), layers.Dense(64, activation="relu"), layers.Flatten()]
    decoder = [layers.Dense(height * width * 64), layers.Reshape((*shape, 64)), layers.Dense(32)]
    decoder += [layers.Dense(64, activation="relu"), layers.Dense(1, activation="relu"), layers.Reshape(shape)]
    return [*encoder, layers.Dense(code), *decoder]


def pets_cnn(shape: Shape, num_classes: int, *, dropout: float = 0.1) -> Layers:
    """Study 002: three convolutions with batch normalisation, and three dense layers. Two classes need one logit."""
    stack = [*_convolutions((32, 64, 128), "valid", normalised=True), layers.Flatten()]
    return [*stack, *_dense((128, 64), dropout), layers.Dense(1 if num_classes == 2 else num_classes)]


def scaling_cnn(
    shape: Shape, num_classes: int, *, channels: Sequence[int] = (64, 128, 256), hidden: int = 512, dropout: float = 0.5
) -> Layers:
    """Study 003: padded convolutions and two dense layers."""
    return [*_convolutions(channels), layers.Flatten(), *_dense([hidden], dropout), layers.Dense(num_classes)]


NETWORKS: Mapping[str, Callable[..., Layers]] = {
    network.__name__: network for network in (mlp, cnn, rnn, lstm, autoencoder, pets_cnn, scaling_cnn)
}


def set_policy(precision: Precision) -> None:
    """Sets Keras' global dtype policy, which affects layers that are built later.

    The policy must be global. Otherwise Keras would not scale the loss in `fp16_mixed`.
    """
    keras.config.set_image_data_format("channels_last")  # ~/.keras/keras.json may have another value
    keras.config.set_epsilon(1e-7)
    # `floatx` is the dtype of losses and metrics.
    keras.config.set_floatx("float64" if precision == Precision.fp64 else "float32")
    keras.config.set_dtype_policy(POLICIES[precision])


def build(model: ModelSpec, shape: Shape, num_classes: int) -> keras.Sequential:
    """Builds one of accelbench's networks.

    Raises UserError if the name is unknown or an argument is wrong. Raises UnsupportedError if the network does not
    accept images of this shape.
    """
    make = own_network(model, NETWORKS)
    check_fits(model, channels_first(shape))
    try:
        stack = make(shape, num_classes, **model.args)
    except TypeError as error:
        raise UserError(f"model.args: {error}") from error
    return keras.Sequential([keras.Input(shape), *stack], name=model.definition)


def network_of(cell: Cell, shape: Shape, num_classes: int) -> keras.Sequential:
    """Builds the cell's network in its precision. The weights are the same in all precisions, except for rounding."""
    if FORMATS[cell.precision].stored == "float32":
        return _drawn(cell, cell.precision, shape, num_classes)
    weights = _drawn(cell, Precision.fp32, shape, num_classes).get_weights()
    network = _drawn(cell, cell.precision, shape, num_classes)
    network.set_weights(weights)
    return network


def reference(cell: Cell, images: NDArray[Any], shape: Shape, num_classes: int) -> NDArray[Any]:
    """Builds the cell's network again. Returns its output for `images`, which have the format of the feed's images."""
    network = network_of(cell, shape, num_classes)
    floats = images / np.float32(255) if images.dtype == np.uint8 else images.astype(np.float32)
    output: NDArray[Any] = ops.convert_to_numpy(network(floats, training=False))
    return output


def _drawn(cell: Cell, precision: Precision, shape: Shape, num_classes: int) -> keras.Sequential:
    set_policy(precision)
    keras.utils.set_random_seed(cell.seed)
    return build(cell.model, shape, num_classes)


@keras.saving.register_keras_serializable("accelbench")
class Scale(layers.Layer):
    """Scales whole numbers from 0 to 255 to floats from 0 to 1, in the policy's dtype."""

    def call(self, images: Any) -> Any:
        return ops.cast(images, self.compute_dtype) / 255


def model_of(network: keras.Sequential, dtype: str) -> keras.Sequential:
    """Wraps the network so that it accepts images of `dtype`. The wrapper scales uint8 images to floats from 0 to 1."""
    scale = [Scale()] if dtype == "uint8" else []
    return keras.Sequential([keras.Input(network.input_shape[1:], dtype=dtype), *scale, network])


def optimizer_of(model: ModelSpec) -> keras.Optimizer:
    """Makes the model's optimiser."""
    return optimizer_named(model.optimizer, OPTIMIZERS)(learning_rate=model.learning_rate)


def loss_of(spec: ModelSpec, network: keras.Sequential, dtype: str) -> Any:
    """Returns the loss function of the network.

    The autoencoder uses the mean squared error. Networks with one logit use the binary cross-entropy. All other
    networks use the cross-entropy.
    """
    if spec.is_own("autoencoder"):
        return scaled_squared_error if dtype == "uint8" else losses.MeanSquaredError()
    if network.output_shape[-1] == 1:
        return losses.BinaryCrossentropy(from_logits=True)
    return losses.SparseCategoricalCrossentropy(from_logits=True)


def metrics_of(spec: ModelSpec, network: keras.Sequential) -> list[Any]:
    """Returns the accuracy if the network classifies. Otherwise returns an empty list."""
    if spec.is_own("autoencoder"):
        return []
    return [right_sign if network.output_shape[-1] == 1 else keras.metrics.SparseCategoricalAccuracy(name="accuracy")]


def scaled_squared_error(images: Any, output: Any) -> Any:
    """Returns the mean squared error between the output and `images`, which are integers from 0 to 255."""
    return losses.mean_squared_error(images / 255, output)


def right_sign(labels: Any, logits: Any) -> Any:
    """Returns for each logit whether it is right. It must be above 0 for label 1, and at most 0 for label 0."""
    return ops.equal(ops.cast(labels, "bool"), ops.reshape(logits, ops.shape(labels)) > 0)


right_sign.__name__ = "accuracy"
