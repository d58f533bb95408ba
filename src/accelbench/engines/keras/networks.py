"""The networks of the studies in Keras: the twins of the Lightning engine's, layer by layer.

Each is built for images of one shape, (height, width) or (height, width, channels), in [0, 1], and returns logits
(batch, classes), or (batch, 1) where a study has one alone for two classes: softmax and sigmoid are part of the loss.
The autoencoder returns images. Initialisers are Keras' own.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import keras
from keras import layers

from accelbench.errors import UnknownChoiceError, UnsupportedError, UserError
from accelbench.schema.cell import ModelSpec
from accelbench.schema.vocab import Weights

Shape = tuple[int, ...]
Layers = list[keras.Layer]


def build(model: ModelSpec, shape: Shape, num_classes: int) -> keras.Sequential:
    """The network of `model` under Keras' global dtype policy, its weights drawn from Keras' generator.

    Args:
        model: what to build; a network of accelbench's own.
        shape: of an image, (height, width) or (height, width, channels).
        num_classes: of the labels.

    Raises:
        UserError: there is no such network, it takes no such argument, or it has no such weights.
        UnsupportedError: it takes no images of this shape.
    """
    if model.definition not in NETWORKS:
        raise UnknownChoiceError("model", model.definition, NETWORKS)
    if model.weights != Weights.none:
        raise UserError(f"model.weights={model.weights}: {model.definition} has none. Choose from: none.")
    try:
        stack = NETWORKS[model.definition](shape, num_classes, **model.args)
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
    """Study 001: three padded 3x3 convolutions, each halved by max-pooling, and a fourth."""
    if min(shape[:2]) < 24:
        raise UnsupportedError(f"model=cnn takes images of at least 24 x 24 pixels, not {shape[0]} x {shape[1]}")
    stack: Layers = [layers.Reshape((*shape, 1))] if len(shape) == 2 else []
    for _ in range(3):
        stack += [layers.Conv2D(channels, 3, padding="same", activation="relu"), layers.MaxPooling2D()]
    stack += [layers.Conv2D(channels, 3, activation="relu"), layers.Flatten(), layers.Dropout(dropout)]
    return [*stack, layers.Dense(num_classes)]


def rnn(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> Layers:
    """Study 001: three tanh recurrent layers over a grey image's rows, dropout before each."""
    _check_grey("rnn", shape)
    return _recurrent(layers.SimpleRNN, num_classes, units, [dropout] * 3)


def lstm(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> Layers:
    """Study 001: three LSTM layers of 256 over a grey image's rows, dropout before the last two."""
    _check_grey("lstm", shape)
    return _recurrent(layers.LSTM, num_classes, units, [0.0, dropout, dropout])


def autoencoder(shape: Shape, num_classes: int, *, code: int = 16) -> Layers:
    """Study 001: per-pixel dense layers around a code of `code` numbers."""
    _check_grey("autoencoder", shape)
    height, width = shape
    encoder = [layers.Reshape((*shape, 1)), layers.Dense(32), layers.Dense(64, activation="relu"), layers.Flatten()]
    decoder = [layers.Dense(height * width * 64), layers.Reshape((*shape, 64)), layers.Dense(32)]
    decoder += [layers.Dense(64, activation="relu"), layers.Dense(1, activation="relu"), layers.Reshape(shape)]
    return [*encoder, layers.Dense(code), *decoder]


def pets_cnn(shape: Shape, num_classes: int, *, dropout: float = 0.1) -> Layers:
    """Study 002: three 3x3 convolutions, each with batch normalisation and max-pooling, and three dense layers.

    Two classes share one logit.
    """
    if len(shape) != 3 or min(shape[:2]) < 22:
        raise UnsupportedError(f"model=pets_cnn takes images in colour of at least 22 x 22 pixels, not {_words(shape)}")
    stack: Layers = []
    for channels in (32, 64, 128):
        stack += [layers.Conv2D(channels, 3, activation="relu"), layers.BatchNormalization(), layers.MaxPooling2D()]
    stack += [layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dropout(dropout)]
    stack += [layers.Dense(64, activation="relu"), layers.Dropout(dropout)]
    return [*stack, layers.Dense(1 if num_classes == 2 else num_classes)]


def scaling_cnn(
    shape: Shape, num_classes: int, *, channels: Sequence[int] = (64, 128, 256), hidden: int = 512, dropout: float = 0.5
) -> Layers:
    """Study 003: padded 3x3 convolutions, each halved by max-pooling, and two dense layers."""
    least = 2 ** len(channels)
    if len(shape) != 3 or min(shape[:2]) < least:
        raise UnsupportedError(
            f"model=scaling_cnn takes images in colour of at least {least} x {least} pixels, not {_words(shape)}"
        )
    stack: Layers = []
    for outputs in channels:
        stack += [layers.Conv2D(outputs, 3, padding="same", activation="relu"), layers.MaxPooling2D()]
    stack += [layers.Flatten(), layers.Dense(hidden, activation="relu"), layers.Dropout(dropout)]
    return [*stack, layers.Dense(num_classes)]


NETWORKS: Mapping[str, Callable[..., Layers]] = {
    network.__name__: network for network in (mlp, cnn, rnn, lstm, autoencoder, pets_cnn, scaling_cnn)
}


def _recurrent(kind: type[keras.Layer], num_classes: int, units: int, dropouts: Sequence[float]) -> Layers:
    """Recurrent layers over image rows, the last one's last output classified by a dense layer.

    A layer's `dropout` has one mask per sample, the same at every time step.
    """
    last = len(dropouts) - 1
    stack = [kind(units, dropout=rate, return_sequences=index != last) for index, rate in enumerate(dropouts)]
    return [*stack, layers.Dense(num_classes)]


def _check_grey(model: str, shape: Shape) -> None:
    if len(shape) != 2:
        raise UnsupportedError(f"model={model} takes grey images, not {_words(shape)}")


def _words(shape: Shape) -> str:
    return " x ".join(map(str, shape))
