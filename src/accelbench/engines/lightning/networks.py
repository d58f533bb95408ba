"""The networks of the studies, with Keras' initialisers, as the studies' Keras code had them (003's was PyTorch's).

Each is built for images of one shape, (height, width) or (channels, height, width), in [0, 1], and returns logits
(batch, classes), or (batch, 1) if a study has a single logit for two classes: softmax and sigmoid are part of the loss.
So are study 004's ten sigmoids: Keras on TensorFlow computes their cross-entropy from the logits, as softmax does.
The autoencoder returns images.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from accelbench.engines.models import check_colour, check_grey, check_size
from accelbench.engines.sources import Shape


def mlp(shape: Shape, num_classes: int, *, widths: Sequence[int] = (512,) * 4, dropout: float = 0.45) -> nn.Module:
    """Studies 001 and 004: dense layers of `widths` units, each with ReLU and, if any, dropout.

    1,195,018 parameters on MNIST with the default widths, those of study 001. Study 004 has no dropout.
    """
    layers: list[nn.Module] = [nn.Flatten()]
    inputs = math.prod(shape)
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, num_classes))


def cnn(shape: Shape, num_classes: int, *, channels: int = 64, dropout: float = 0.2) -> nn.Module:
    """Study 001: three padded 3x3 convolutions, each followed by max-pooling, and a fourth; 112,074 parameters."""
    colours, height, width = (1, *shape) if len(shape) == 2 else shape
    check_size("cnn", (height, width), 24)
    left = [side // 8 - 2 for side in (height, width)]  # of the last convolution's output
    layers: list[nn.Module] = [nn.Unflatten(1, (1, height))] if len(shape) == 2 else []
    for inputs in [colours, channels, channels]:
        layers += [nn.Conv2d(inputs, channels, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(channels, channels, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(channels * math.prod(left), num_classes))


def rnn(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> nn.Module:
    """Study 001: three tanh recurrent layers over a grey image's rows, dropout before each; 338,186 parameters."""
    check_grey("rnn", shape)
    return Recurrent(nn.RNN, shape[1], num_classes, units, [dropout] * 3)


def lstm(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> nn.Module:
    """Study 001: three LSTM layers over a grey image's rows, dropout before the last two; 1,345,034 parameters."""
    check_grey("lstm", shape)
    return Recurrent(nn.LSTM, shape[1], num_classes, units, [0.0, dropout, dropout])


def pets_cnn(shape: Shape, num_classes: int, *, dropout: float = 0.1) -> nn.Module:
    """Study 002: three 3x3 convolutions, each with batch normalisation and max-pooling, and three dense layers.

    11,177,729 trainable parameters on images of 224 x 224; two classes share one logit.
    """
    check_colour("pets_cnn", shape, shape[1:], 22)
    colours, height, width = shape
    layers: list[nn.Module] = []
    for inputs, channels in [(colours, 32), (32, 64), (64, 128)]:
        # Keras' momentum .99 is PyTorch's .01.
        layers += [nn.Conv2d(inputs, channels, 3), nn.ReLU(), nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)]
        layers += [nn.MaxPool2d(2)]
        height, width = (height - 2) // 2, (width - 2) // 2
    layers += [nn.Flatten(), nn.Linear(128 * height * width, 128), nn.ReLU(), nn.Dropout(dropout)]
    layers += [nn.Linear(128, 64), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(64, 1 if num_classes == 2 else num_classes))


def scaling_cnn(
    shape: Shape, num_classes: int, *, channels: Sequence[int] = (64, 128, 256), hidden: int = 512, dropout: float = 0.5
) -> nn.Module:
    """Study 003: padded 3x3 convolutions, each followed by max-pooling, and two dense layers.

    8,765,066 parameters on images of 64 x 64; the study's two larger networks are wider.
    """
    check_colour("scaling_cnn", shape, shape[1:], 2 ** len(channels))
    inputs, height, width = shape
    layers: list[nn.Module] = []
    for outputs in channels:
        layers += [nn.Conv2d(inputs, outputs, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2)]
        inputs, height, width = outputs, height // 2, width // 2
    layers += [nn.Flatten(), nn.Linear(inputs * height * width, hidden), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(hidden, num_classes))


class SequenceDropout(nn.Module):
    """Dropout on a recurrent layer's input as in Keras: one mask per sample for all time steps."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, sequence: Tensor) -> Tensor:
        """Drops features of `sequence` (batch, time, feature) and scales the rest."""
        if not self.training or not self.rate:
            return sequence
        mask = torch.ones_like(sequence[:, :1])
        return sequence * nn.functional.dropout(mask, self.rate)


class Recurrent(nn.Module):
    """Recurrent layers over image rows; a dense layer classifies the last output of the last one.

    PyTorch's layers add a second bias, `bias_hh`, to each gate; Keras has one. The second one stays zero; it is neither
    trained nor counted as a parameter.
    """

    def __init__(
        self, kind: type[nn.RNNBase], num_features: int, num_classes: int, units: int, dropouts: list[float]
    ) -> None:
        super().__init__()
        sizes = [num_features] + [units] * (len(dropouts) - 1)
        self.dropouts = nn.ModuleList(SequenceDropout(rate) for rate in dropouts)
        self.layers = nn.ModuleList(kind(size, units, batch_first=True) for size in sizes)  # type: ignore[call-arg, arg-type]
        self.head = nn.Linear(units, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (batch, classes) for `images` (batch, time steps, features)."""
        sequence = images
        for dropout, layer in zip(self.dropouts, self.layers, strict=True):
            sequence, _ = layer(dropout(sequence))
        logits: Tensor = self.head(sequence[:, -1])
        return logits


def autoencoder(shape: Shape, num_classes: int, *, code: int = 16) -> nn.Module:
    """Study 001: dense layers per pixel around `code` numbers; 805,008 + 857,249 parameters on MNIST."""
    check_grey("autoencoder", shape)
    height, width = shape
    pixels = height * width
    encoder = [nn.Unflatten(2, (width, 1)), nn.Linear(1, 32), nn.Linear(32, 64), nn.ReLU(), nn.Flatten()]
    decoder = [
        nn.Linear(code, pixels * 64),
        nn.Unflatten(1, (height, width, 64)),
        *[nn.Linear(64, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1), nn.ReLU(), nn.Flatten(2)],
    ]
    return nn.Sequential(*encoder, nn.Linear(pixels * 64, code), *decoder)


NETWORKS: Mapping[str, Callable[..., nn.Module]] = {
    network.__name__: network for network in (mlp, cnn, rnn, lstm, autoencoder, pets_cnn, scaling_cnn)
}


def initialise_as_keras(module: nn.Module) -> None:
    """Draws the weights of one module as Keras does.

    Glorot uniform kernels, orthogonal recurrent ones, zero biases, an LSTM's forget bias 1.
    """
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    if isinstance(module, nn.RNNBase):
        for name, parameter in module.named_parameters():
            if name.startswith("weight_ih"):
                nn.init.xavier_uniform_(parameter)
            elif name.startswith("weight_hh"):
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)
            if name.startswith("bias_ih") and isinstance(module, nn.LSTM):
                with torch.no_grad():  # gates are ordered input, forget, cell, output
                    parameter[module.hidden_size : 2 * module.hidden_size] = 1
            if name.startswith("bias_hh"):
                parameter.requires_grad_(False)
