"""The networks of the studies in Keras: the same layers as in the Lightning engine.

Each network is built for images of one shape, (height, width) or (height, width, channels), with values in [0, 1].
It returns logits (batch, classes), or (batch, 1) if a study has a single logit for two classes: softmax and sigmoid are
part of the loss. So are study 004's ten sigmoids: Keras on TensorFlow computes their cross-entropy from the logits, as
softmax does. The autoencoder returns images. Weights start as Keras' layers initialise them.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import keras
from keras import layers

from accelbench.engines.models import check_colour, check_grey, check_size, own_network
from accelbench.engines.sources import Shape
from accelbench.errors import UserError
from accelbench.schema.workload import ModelSpec

Layers = list[keras.Layer]


def build(model: ModelSpec, shape: Shape, num_classes: int) -> keras.Sequential:
    """The network of `model` under Keras' global dtype policy, its weights drawn from Keras' generator.

    Args:
        model: what to build; a network of accelbench's own.
        shape: of an image, (height, width) or (height, width, channels).
        num_classes: of the labels.

    Raises:
        UserError: there is no such network, or it has no such argument or weights.
        UnsupportedError: it does not take images of this shape.
    """
    make = own_network(model, NETWORKS)
    try:
        stack = make(shape, num_classes, **model.args)
    except TypeError as error:
        raise UserError(f"model.args: {error}") from error
    return keras.Sequential([keras.Input(shape), *stack], name=model.definition)


def num_params(network: keras.Model) -> int:
    """The count of trainable parameters."""
    return sum(math.prod(weight.shape) for weight in network.trainable_weights)


def mlp(shape: Shape, num_classes: int, *, widths: Sequence[int] = (512,) * 4, dropout: float = 0.45) -> Layers:
    """Studies 001 and 004: dense layers of `widths` units, each with ReLU and, if any, dropout."""
    stack: Layers = [layers.Flatten()]
    for width in widths:
        stack += [layers.Dense(width, activation="relu"), *([layers.Dropout(dropout)] if dropout else [])]
    return [*stack, layers.Dense(num_classes)]


def cnn(shape: Shape, num_classes: int, *, channels: int = 64, dropout: float = 0.2) -> Layers:
    """Study 001: three padded 3x3 convolutions, each followed by max-pooling, and a fourth."""
    check_size("cnn", shape[:2], 24)
    stack: Layers = [layers.Reshape((*shape, 1))] if len(shape) == 2 else []
    for _ in range(3):
        stack += [layers.Conv2D(channels, 3, padding="same", activation="relu"), layers.MaxPooling2D()]
    stack += [layers.Conv2D(channels, 3, activation="relu"), layers.Flatten(), layers.Dropout(dropout)]
    return [*stack, layers.Dense(num_classes)]


def rnn(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> Layers:
    """Study 001: three tanh recurrent layers over a grey image's rows, dropout before each."""
    check_grey("rnn", shape)
    return _recurrent(layers.SimpleRNN, num_classes, units, [dropout] * 3)


def lstm(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> Layers:
    """Study 001: three LSTM layers of 256 over a grey image's rows, dropout before the last two."""
    check_grey("lstm", shape)
    return _recurrent(layers.LSTM, num_classes, units, [0.0, dropout, dropout])


def autoencoder(shape: Shape, num_classes: int, *, code: int = 16) -> Layers:
    """Study 001: dense layers per pixel around `code` numbers."""
    check_grey("autoencoder", shape)
    height, width = shape
    encoder = [layers.Reshape((*shape, 1)), layers.Dense(32), layers.Dense(64, activation="relu"), layers.Flatten()]
    decoder = [layers.Dense(height * width * 64), layers.Reshape((*shape, 64)), layers.Dense(32)]
    decoder += [layers.Dense(64, activation="relu"), layers.Dense(1, activation="relu"), layers.Reshape(shape)]
    return [*encoder, layers.Dense(code), *decoder]


def pets_cnn(shape: Shape, num_classes: int, *, dropout: float = 0.1) -> Layers:
    """Study 002: three 3x3 convolutions, each with batch normalisation and max-pooling, and three dense layers.

    Two classes share one logit.
    """
    check_colour("pets_cnn", shape, shape[:2], 22)
    stack: Layers = []
    for channels in (32, 64, 128):
        stack += [layers.Conv2D(channels, 3, activation="relu"), layers.BatchNormalization(), layers.MaxPooling2D()]
    stack += [layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dropout(dropout)]
    stack += [layers.Dense(64, activation="relu"), layers.Dropout(dropout)]
    return [*stack, layers.Dense(1 if num_classes == 2 else num_classes)]


def scaling_cnn(
    shape: Shape, num_classes: int, *, channels: Sequence[int] = (64, 128, 256), hidden: int = 512, dropout: float = 0.5
) -> Layers:
    """Study 003: padded 3x3 convolutions, each followed by max-pooling, and two dense layers."""
    check_colour("scaling_cnn", shape, shape[:2], 2 ** len(channels))
    stack: Layers = []
    for outputs in channels:
        stack += [layers.Conv2D(outputs, 3, padding="same", activation="relu"), layers.MaxPooling2D()]
    stack += [layers.Flatten(), layers.Dense(hidden, activation="relu"), layers.Dropout(dropout)]
    return [*stack, layers.Dense(num_classes)]


NETWORKS: Mapping[str, Callable[..., Layers]] = {
    network.__name__: network for network in (mlp, cnn, rnn, lstm, autoencoder, pets_cnn, scaling_cnn)
}


def _recurrent(kind: type[keras.Layer], num_classes: int, units: int, dropouts: Sequence[float]) -> Layers:
    """Recurrent layers over image rows; a dense layer classifies the last output of the last one.

    Dropout uses one mask per sample for all time steps.
    """
    last = len(dropouts) - 1
    stack = [kind(units, dropout=rate, return_sequences=index != last) for index, rate in enumerate(dropouts)]
    return [*stack, layers.Dense(num_classes)]
