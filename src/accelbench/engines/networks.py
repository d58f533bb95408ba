"""The networks of accelbench's studies 001 to 004 (docs/studies.md), described as layers that each engine builds.

A network is a list of layers. A layer is a tuple of its kind and its arguments. Each engine has a table `LAYERS` from
the kind to a function that makes the framework's layer.

A network is built for images of one shape, (height, width) or (channels, height, width), with values in [0, 1]. It
returns logits of shape (batch, classes), because softmax or sigmoid is part of the loss. For two classes, study 002's
network returns logits of shape (batch, 1). The autoencoder returns images. Study 004's network ended with sigmoids. It
was trained as here, because Keras on TensorFlow computes the loss from the inputs of such sigmoids.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accelbench.engines.images import Made, Shape, check_fits
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.schema.cell import ModelSpec, Weights

Layers = list[tuple[Any, ...]]


def _dense(widths: Sequence[int], dropout: float) -> Layers:
    layers: Layers = []
    for width in widths:
        layers += [("dense", width), ("relu",), ("dropout", dropout)]
    return layers


def _convolutions(channels: Sequence[int]) -> Layers:
    """Padded 3x3 convolutions, each followed by max-pooling."""
    layers: Layers = []
    for num in channels:
        layers += [("convolution", num, "same"), ("relu",), ("pool",)]
    return layers


def mlp(
    shape: Shape, num_classes: int, *, widths: Sequence[int] = (512,) * 4, dropout: float = 0.45
) -> Layers:
    """Studies 001 and 004: dense layers of `widths` units with ReLU and dropout; 1,195,018 parameters."""
    return [("flatten",), *_dense(widths, dropout), ("dense", num_classes)]


def cnn(shape: Shape, num_classes: int, *, channels: int = 64, dropout: float = 0.2) -> Layers:
    """Study 001: four 3x3 convolutions, then a dense layer; 112,074 parameters.

    The first three convolutions are padded, and max-pooling follows each of them. The fourth has neither.
    """
    layers: Layers = [("channel", *shape)] if len(shape) == 2 else []
    layers += [*_convolutions([channels] * 3), ("convolution", channels, "valid"), ("relu",), ("flatten",)]
    return [*layers, ("dropout", dropout), ("dense", num_classes)]


def rnn(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> Layers:
    """Study 001: three recurrent tanh layers over the rows of a grey image, with dropout; 338,186 parameters."""
    return _recurrent("rnn", shape, num_classes, units, [dropout] * 3)


def lstm(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> Layers:
    """Study 001: three LSTM layers over the rows of a grey image; 1,345,034 parameters.

    The second and the third layer have dropout on their inputs.
    """
    return _recurrent("lstm", shape, num_classes, units, [0.0, dropout, dropout])


def _recurrent(kind: str, shape: Shape, num_classes: int, units: int, dropouts: Sequence[float]) -> Layers:
    """Recurrent layers: (kind, inputs, units, dropout, whether the layer returns the outputs of all time steps)."""
    layers: Layers = []
    inputs = shape[1]
    for index, dropout in enumerate(dropouts, 1):
        layers.append((kind, inputs, units, dropout, index < len(dropouts)))
        inputs = units
    return [*layers, ("dense", num_classes)]


def autoencoder(shape: Shape, num_classes: int, *, code: int = 16) -> Layers:
    """Study 001: an encoder from an image to `code` numbers, and a decoder from these numbers to an image.

    The encoder begins with two dense layers on the value of each pixel, with the same weights for all pixels. The
    decoder ends with three such layers. On MNIST, the encoder has 805,008 parameters and the decoder has 857,249.
    """
    height, width = shape
    encoder = [
        ("reshape", height, width, 1),
        ("dense", 32),
        ("dense", 64),
        ("relu",),
        ("flatten",),
        ("dense", code),
    ]
    decoder = [
        ("dense", height * width * 64),
        ("reshape", height, width, 64),
        ("dense", 32),
        ("dense", 64),
        ("relu",),
    ]
    return [*encoder, *decoder, ("dense", 1), ("relu",), ("reshape", height, width)]


def pets_cnn(shape: Shape, num_classes: int, *, dropout: float = 0.1) -> Layers:
    """Study 002: three 3x3 convolutions with batch normalisation and max-pooling, then three dense layers.

    For images of 224 x 224, it has 11,178,177 parameters, of which 11,177,729 are trained. Two classes share one logit.
    """
    layers: Layers = []
    for channels in (32, 64, 128):
        layers += [("convolution", channels, "valid"), ("relu",), ("normalisation", channels), ("pool",)]
    return [
        *layers,
        ("flatten",),
        *_dense((128, 64), dropout),
        ("dense", 1 if num_classes == 2 else num_classes),
    ]


def scaling_cnn(
    shape: Shape,
    num_classes: int,
    *,
    channels: Sequence[int] = (64, 128, 256),
    hidden: int = 512,
    dropout: float = 0.5,
) -> Layers:
    """Study 003: padded 3x3 convolutions, each followed by max-pooling, then two dense layers.

    For images of 64 x 64, it has 8,765,066 parameters. The study's two larger networks have wider layers.
    """
    return [*_convolutions(channels), ("flatten",), *_dense([hidden], dropout), ("dense", num_classes)]


NETWORKS: Mapping[str, Callable[..., Layers]] = {
    network.__name__: network for network in (mlp, cnn, rnn, lstm, autoencoder, pets_cnn, scaling_cnn)
}


def layers_of(
    model: ModelSpec, shape: Shape, num_classes: int, made: Mapping[str, Callable[..., Made]]
) -> list[Made]:
    """Makes the layers of the network of `model` for images of `shape`, channels first. `made` is the table `LAYERS`.

    Raises UserError if the name or an argument is wrong. Raises UserError if `model.weights` is not `none`, because
    these networks have no trained weights. Raises UnsupportedError if the network does not accept such images.
    """
    name = model.definition
    if name not in NETWORKS:
        raise UnknownChoiceError("model", name, NETWORKS)
    if model.weights != Weights.none:
        raise UserError(
            f"model.weights={model.weights}: {name} has no trained weights: use model.weights=none"
        )
    check_fits(model, shape)
    try:
        return [made[kind](*args) for kind, *args in NETWORKS[name](shape, num_classes, **model.args)]
    except (TypeError, ValueError) as error:
        raise UserError(f"model.args: {error}") from error
