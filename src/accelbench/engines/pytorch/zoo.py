"""Builds networks of accelbench, timm, torchvision, transformers or the user.

accelbench's networks come from its studies 001 to 004. They use Keras' initialisers. A network is built for images of
one shape, (height, width) or (channels, height, width), with values in [0, 1]. It returns logits of shape
(batch, classes), because softmax or sigmoid is part of the loss. For two classes, study 002's network returns logits of
shape (batch, 1). The autoencoder returns images.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from accelbench.engines.images import Shape, check_fits, check_name, own_network
from accelbench.engines.pytorch import architectures, weights
from accelbench.engines.pytorch.training import modes_of, set_modes, with_modes
from accelbench.engines.targets import check_call, import_target, lightning_package
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.vocab import Library, Weights
from accelbench.schema.workload import ModelSpec


def build(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    """Builds the network of `model`. Its weights are random (torch's generator), pretrained, or from the user's file.

    Raises UserError if the network or one of its arguments is unknown, or if the weights can't be loaded. Raises
    UnsupportedError if the network does not accept images of this shape.
    """
    without_file = model if model.weights_file is None else replace(model, weights=Weights.none.value)
    try:
        with weights.guarded(model):
            network = BUILDERS[model.library](without_file, shape, num_classes)
    except TypeError as error:
        if model.library == Library.custom:  # the arguments were checked, so the error comes from the user's class
            raise
        raise UserError(f"model.args: {error}") from error
    if model.weights_file is not None:
        weights.load(network, model.weights_file)
    return network


def check_trainable(network: nn.Module, model: ModelSpec) -> None:
    """Raises UnsupportedError if `network` is a LightningModule, whose training step this engine would not run."""
    if model.library != Library.lightning and lightning_package(type(network), "LightningModule"):
        raise UnsupportedError(
            f"model={model.name} is a LightningModule, but this engine would not run its training_step: use "
            "model=lightning, which runs it, or mode=infer"
        )


def num_params(network: nn.Module) -> int:
    """Returns the number of trainable parameters, plus the number of `KerasBatchNorm` statistics, as in study 002."""
    statistics = sum(2 * layer.num_features for layer in network.modules() if isinstance(layer, KerasBatchNorm))
    return statistics + sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)


def _own(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    make = own_network(model, NETWORKS)
    check_fits(model, shape)
    return make(shape, num_classes, **model.args).apply(initialise_as_keras)


def _timm(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    import timm

    check_name(model, timm.list_models())
    in_colour = len(shape) == 3
    args = {"in_chans": shape[0] if in_colour else 1, "num_classes": num_classes, **model.args}
    network: nn.Module = timm.create_model(model.definition, pretrained=model.weights != Weights.none, **args)
    # Grey images have no channel axis, so one is added.
    return network if in_colour else nn.Sequential(nn.Unflatten(1, (1, shape[0])), network)


def _torchvision(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    from torchvision import models

    check_name(model, models.list_models(module=models))  # only networks that classify images
    check_fits(model, shape)
    network: nn.Module
    if model.weights == Weights.none:
        network = models.get_model(model.definition, weights=None, num_classes=num_classes, **model.args)
        return network
    default = models.get_model_weights(model.definition).DEFAULT
    with weights.verified(default.url):  # without `num_classes`: pretrained weights fix the number of classes
        network = models.get_model(model.definition, weights=default, **model.args)
    return network


def _custom(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    kind = import_target(model, nn.Module, "torch.nn.Module")
    check_call(f"model.args: {model.definition}, with its model.args.NAME=VALUE", kind, **model.args)
    network = kind(**model.args)
    if not isinstance(network, nn.Module):
        name = type(network).__name__
        raise UserError(f"model.target={model.definition}: should make a torch.nn.Module, not a {name}")
    return with_modes(network)


def materialised(network: nn.Module, run: Callable[[nn.Module], object]) -> nn.Module:
    """Returns the network. If it has lazy layers, first creates their weights: `run` feeds one batch to the network."""
    tensors = [*network.parameters(), *network.buffers()]
    if any(is_lazy(tensor) for tensor in tensors):
        modes = modes_of(network)
        with torch.no_grad():
            run(network.eval())
        set_modes(network, modes)
    return network


BUILDERS: Mapping[Library, Callable[[ModelSpec, Shape, int], nn.Module]] = {
    Library.accelbench: _own,
    Library.timm: _timm,
    Library.torchvision: _torchvision,
    Library.transformers: lambda model, shape, num_classes: architectures.build(model),
    Library.custom: _custom,
}


def check_logits(output: object, model: ModelSpec, num_classes: int) -> None:
    """Raises UserError if an output is not logits of shape (batch, num_classes); two classes may share one logit."""
    shape = tuple(output.shape) if isinstance(output, Tensor) else ()
    if len(shape) != 2 or shape[1] not in ((2, 1) if num_classes == 2 else (num_classes,)):
        shown = shape or f"a {type(output).__name__}"
        raise UserError(
            f"model={model.name}: its output should be logits (batch, {num_classes}), not {shown}. For random images, "
            "set model.num_classes. For inference, set model.output=any, which accepts any output"
        )


def mlp(shape: Shape, num_classes: int, *, widths: Sequence[int] = (512,) * 4, dropout: float = 0.45) -> nn.Module:
    """Studies 001 and 004: dense layers of `widths` units with ReLU and dropout; 1,195,018 parameters."""
    layers: list[nn.Module] = [nn.Flatten()]
    inputs = math.prod(shape)
    for width in widths:
        layers += [nn.Linear(inputs, width), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, num_classes))


def cnn(shape: Shape, num_classes: int, *, channels: int = 64, dropout: float = 0.2) -> nn.Module:
    """Study 001: four 3x3 convolutions, then a dense layer; 112,074 parameters.

    The first three convolutions are padded, and max-pooling follows each of them. The fourth has neither.
    """
    colours, height, width = (1, *shape) if len(shape) == 2 else shape
    left = [side // 8 - 2 for side in (height, width)]  # height and width of the last convolution's output
    layers: list[nn.Module] = [nn.Unflatten(1, (1, height))] if len(shape) == 2 else []
    layers += _convolutions([colours, channels, channels, channels])
    layers += [nn.Conv2d(channels, channels, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(channels * math.prod(left), num_classes))


def _convolutions(channels: Sequence[int]) -> list[nn.Module]:
    """Padded 3x3 convolutions, each followed by max-pooling. `channels` begins with the channels of the input."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(channels):
        layers += [nn.Conv2d(inputs, outputs, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2)]
    return layers


def rnn(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> nn.Module:
    """Study 001: three recurrent tanh layers over the rows of a grey image, with dropout; 338,186 parameters."""
    return Recurrent(nn.RNN, shape[1], num_classes, units, [dropout] * 3)


def lstm(shape: Shape, num_classes: int, *, units: int = 256, dropout: float = 0.2) -> nn.Module:
    """Study 001: three LSTM layers over the rows of a grey image; 1,345,034 parameters.

    The second and the third layer have dropout on their inputs.
    """
    return Recurrent(nn.LSTM, shape[1], num_classes, units, [0.0, dropout, dropout])


def pets_cnn(shape: Shape, num_classes: int, *, dropout: float = 0.1) -> nn.Module:
    """Study 002: three 3x3 convolutions with batch normalisation and max-pooling, then three dense layers.

    For images of 224 x 224, it has 11,178,177 parameters, of which 11,177,729 are trained. Two classes share one logit.
    """
    colours, height, width = shape
    layers: list[nn.Module] = []
    for inputs, channels in [(colours, 32), (32, 64), (64, 128)]:
        layers += [nn.Conv2d(inputs, channels, 3), nn.ReLU(), KerasBatchNorm(channels), nn.MaxPool2d(2)]
        height, width = (height - 2) // 2, (width - 2) // 2
    layers += [nn.Flatten(), nn.Linear(128 * height * width, 128), nn.ReLU(), nn.Dropout(dropout)]
    layers += [nn.Linear(128, 64), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(64, 1 if num_classes == 2 else num_classes))


def scaling_cnn(
    shape: Shape, num_classes: int, *, channels: Sequence[int] = (64, 128, 256), hidden: int = 512, dropout: float = 0.5
) -> nn.Module:
    """Study 003: padded 3x3 convolutions, each followed by max-pooling, then two dense layers.

    For images of 64 x 64, it has 8,765,066 parameters. The study's two larger networks have wider layers.
    """
    colours, height, width = shape
    sizes = [colours, *channels]
    scale = 2 ** len(channels)
    inputs = sizes[-1] * (height // scale) * (width // scale)
    layers = _convolutions(sizes)
    layers += [nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(hidden, num_classes))


class KerasBatchNorm(nn.BatchNorm2d):
    """Batch normalisation with Keras' defaults."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=1e-3, momentum=0.01)  # Keras' momentum 0.99 is 1 minus PyTorch's


class SequenceDropout(nn.Module):
    """Dropout on the input of a recurrent layer. As in Keras, all time steps of a sample get the same mask."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, sequence: Tensor) -> Tensor:
        if not self.training or not self.rate:
            return sequence
        mask = torch.ones_like(sequence[:, :1])
        return sequence * nn.functional.dropout(mask, self.rate)


class Recurrent(nn.Module):
    """Recurrent layers over image rows. A dense layer classifies the last output of the last recurrent layer.

    A recurrent layer of Keras has only one bias. Therefore PyTorch's second bias, `bias_hh`, stays 0. It is neither
    trained nor counted.
    """

    def __init__(self, kind: Any, num_features: int, num_classes: int, units: int, dropouts: list[float]) -> None:
        super().__init__()
        sizes = [num_features] + [units] * (len(dropouts) - 1)
        self.dropouts = nn.ModuleList(SequenceDropout(rate) for rate in dropouts)
        self.layers = nn.ModuleList(kind(size, units, batch_first=True) for size in sizes)
        self.head = nn.Linear(units, num_classes)

    def forward(self, sequence: Tensor) -> Tensor:
        for dropout, layer in zip(self.dropouts, self.layers, strict=True):
            sequence, _ = layer(dropout(sequence))
        logits: Tensor = self.head(sequence[:, -1])
        return logits


def autoencoder(shape: Shape, num_classes: int, *, code: int = 16) -> nn.Module:
    """Study 001: an encoder from an image to `code` numbers, and a decoder from these numbers to an image.

    The encoder begins with two dense layers on the value of each pixel, with the same weights for all pixels. The
    decoder ends with three such layers. On MNIST, the encoder has 805,008 parameters and the decoder has 857,249.
    """
    height, width = shape
    pixels = height * width
    encoder = [nn.Unflatten(2, (width, 1)), nn.Linear(1, 32), nn.Linear(32, 64), nn.ReLU(), nn.Flatten()]
    decoder = [
        nn.Linear(code, pixels * 64),
        nn.Unflatten(1, (height, width, 64)),
        nn.Linear(64, 32),
        nn.Linear(32, 64),
        nn.ReLU(),
        nn.Linear(64, 1),
        nn.ReLU(),
        nn.Flatten(2),
    ]
    return nn.Sequential(*encoder, nn.Linear(pixels * 64, code), *decoder)


NETWORKS: Mapping[str, Callable[..., nn.Module]] = {
    network.__name__: network for network in (mlp, cnn, rnn, lstm, autoencoder, pets_cnn, scaling_cnn)
}


def initialise_as_keras(module: nn.Module) -> None:
    """Draws the weights of a layer with Keras' initialisers.

    Kernels are Glorot uniform. Recurrent kernels are orthogonal. Biases are 0, but the biases of forget gates are 1.
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
                with torch.no_grad():  # PyTorch's order of gates: input, forget, cell, output
                    parameter[module.hidden_size : 2 * module.hidden_size] = 1
            if name.startswith("bias_hh"):
                parameter.requires_grad_(False)
