"""Builds the network of a model's spec: accelbench's, timm's, torchvision's, transformers' or the user's."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from accelbench.engines.lightning import weights
from accelbench.engines.lightning.networks import NETWORKS, initialise_as_keras
from accelbench.engines.lightning.own import architectures
from accelbench.engines.models import check_name, own_network
from accelbench.engines.sources import Shape
from accelbench.engines.targets import check_call, import_target, lightning_package
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.text import message_of
from accelbench.schema.vocab import Library, Weights
from accelbench.schema.workload import ModelSpec


def build(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    """The network of `model`, its weights drawn from torch's generator, pretrained or the user's.

    The shape of an image is (height, width) or (channels, height, width). A user's class gets neither it nor the number
    of classes.

    Raises:
        UserError: there is no such network or argument, or its weights can't be loaded.
        UnsupportedError: it does not take images of this shape.
    """
    drawn = model if model.weights_file is None else replace(model, weights=Weights.none.value)
    try:
        with weights.guarded(model):
            network = BUILDERS[model.library](drawn, shape, num_classes)
    except TypeError as error:
        if model.library == Library.custom:  # its arguments were checked: the class itself fails
            raise
        raise UserError(f"model.args: {error}") from error
    if model.weights_file is not None:
        weights.load(network, model.weights_file)
    return network


def check_trainable(network: nn.Module, model: ModelSpec) -> None:
    """Raises an UnsupportedError if `network` has a training step and an optimiser of its own, which would not run."""
    if lightning_package(type(network), "LightningModule"):
        raise UnsupportedError(
            f"model={model.name} is a LightningModule, and accelbench would train it with its own loss and optimiser "
            "instead of its training_step: use model=lightning, which runs its own, or mode=infer"
        )


def num_params(network: nn.Module) -> int:
    """The count of trainable parameters."""
    return sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)


def _own(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    return own_network(model, NETWORKS)(shape, num_classes, **model.args).apply(initialise_as_keras)


def _timm(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    import timm

    check_name(model, timm.list_models())
    in_colour = len(shape) == 3
    args = {"in_chans": shape[0] if in_colour else 1, "num_classes": num_classes, **model.args}
    network = _weighted(model, lambda pretrained: timm.create_model(model.definition, pretrained=pretrained, **args))
    # Grey images have no channel axis.
    return network if in_colour else nn.Sequential(nn.Unflatten(1, (1, shape[0])), network)


def _torchvision(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    from torchvision import models

    check_name(model, models.list_models(module=models))  # networks that classify images
    if len(shape) != 3 or shape[0] != 3:
        raise UserError(f"model={model.definition}: torchvision's networks take images in colour")

    def make(pretrained: bool) -> Any:
        if not pretrained:
            return models.get_model(model.definition, weights=None, num_classes=num_classes, **model.args)
        default = models.get_model_weights(model.definition).DEFAULT
        with weights.verified(default.url):  # its classes are fixed: torchvision refuses another number
            return models.get_model(model.definition, weights=default, **model.args)

    network: nn.Module = _weighted(model, make)
    return network


def _custom(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    kind = import_target(model, nn.Module, "torch.nn.Module")
    check_call(f"model.args: {model.definition}", kind, **model.args)
    network = kind(**model.args)
    if not isinstance(network, nn.Module):
        raise UserError(
            f"model.target={model.definition}: should make a torch.nn.Module, not a {type(network).__name__}"
        )
    return network


def _weighted(model: ModelSpec, make: Callable[[bool], Any]) -> Any:
    """The network with its weights; raises a UserError if the library has none, or they can't be downloaded."""
    if model.weights == Weights.none:
        return make(False)
    try:
        return make(True)
    except (TypeError, UserError):
        raise
    except Exception as error:  # clients of model hubs raise many kinds
        why = " ".join(message_of(error).split())[:200] or type(error).__name__
        raise UserError(
            f"model.weights=pretrained: the weights of {model.definition} can't be had ({why}); "
            "use model.weights=none to measure it without"
        ) from error


BUILDERS: Mapping[Library, Callable[[ModelSpec, Shape, int], nn.Module]] = {
    Library.accelbench: _own,
    Library.timm: _timm,
    Library.torchvision: _torchvision,
    Library.transformers: lambda model, shape, num_classes: architectures.build(model),
    Library.custom: _custom,
}


def num_logits(model: ModelSpec, num_classes: int) -> int:
    """The number of classes of the network: `num_classes`, or those that torchvision's weights were trained for."""
    if (model.library, model.weights) != (Library.torchvision, Weights.pretrained):
        return num_classes
    from torchvision import models

    return len(models.get_model_weights(model.definition).DEFAULT.meta["categories"])


def check_is_tensor(output: object, model: ModelSpec) -> None:
    """Raises a UserError if an output is not a single tensor."""
    if not isinstance(output, Tensor):
        kind = type(output).__name__
        raise UserError(
            f"model={model.name}: its output should be logits (batch, classes), not a {kind}: "
            "model.output=any measures inference with any output"
        )


def check_logits(output: object, model: ModelSpec, num_classes: int) -> None:
    """Raises a UserError if an output is not the logits (batch, classes) that training with so many classes needs."""
    check_is_tensor(output, model)
    assert isinstance(output, Tensor)
    if output.dim() != 2:
        raise UserError(f"model={model.name}: its output should be logits (batch, classes), not {tuple(output.shape)}")
    num = output.shape[1]
    if num != num_classes and (num, num_classes) != (1, 2):
        raise UserError(
            f"model={model.name}: it gives {num} logits for {num_classes} classes "
            "(model.num_classes for random images, else the data set's)"
        )
