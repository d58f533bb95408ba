"""Observes the weights of a PyTorch network, and whether its layers are in training mode or in evaluation mode."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from accelbench.engines.pytorch.structure import parts_of
from accelbench.measuring.checks import State, States, Training

# Layers of torch.nn whose output depends on the mode.
MODAL = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase)
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # bytes of a number -> integer of that size


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """The trainable tensors, by name."""
    return {name: weight for name, weight in network.named_parameters() if weight.requires_grad}


def _state(tensor: Tensor) -> State:
    """Computes the checksum of the tensor's bits, and whether all its numbers are finite.

    Computes both on the tensor's device, but for XLA on the host (see `_readable`).
    """
    numbers = _readable(parts_of(tensor)[-1])
    values = torch.view_as_real(numbers) if numbers.is_complex() else numbers
    checksum = values.contiguous().view(BITS[values.element_size()]).sum(dtype=torch.int64)
    return State(int(checksum), bool(torch.isfinite(values).all()))


def _has_gradient(tensor: Tensor) -> bool:
    """Returns True if the tensor has a gradient (dense or sparse) that is not 0 everywhere."""
    assert tensor.grad is not None
    values = parts_of(tensor.grad)[-1]
    return bool(torch.count_nonzero(_readable(values)))


def _readable(values: Tensor) -> Tensor:
    """Returns the tensor. Copies a tensor on XLA to the host, because XLA would compile the operators that read it."""
    return values.cpu() if values.device.type == "xla" else values


class TrainedNetwork:
    """Observes how the weights of a network change in training. Create this object before the first step."""

    def __init__(self, network: nn.Module, training: Training) -> None:
        self.network, self.training = network, training
        training.names = list(trainable(network))

    def _trained(self) -> dict[str, Tensor]:
        """The tensors that were trainable when the first step began."""
        names = set(self.training.names)
        return {name: weight for name, weight in self.network.named_parameters() if name in names}

    def states(self) -> States:
        return {name: _state(weight.detach()) for name, weight in self._trained().items() if weight.numel()}

    def note_end(self) -> None:
        """Records the weights, gradients and modes at the end of the steady state."""
        training = self.training
        parameters = self._trained()
        training.after = self.states()
        training.is_coarse = any(weight.element_size() <= 2 for weight in parameters.values())  # 16 bits or fewer
        training.sizes = {name: weight.numel() for name, weight in parameters.items()}
        with_gradient = [weight for weight in parameters.values() if weight.grad is not None]
        training.vanished = bool(with_gradient) and not any(map(_has_gradient, with_gradient))
        training.evaluating = in_other_mode(self.network, training=True)


def _in_mode(layer: nn.Module, *, training: bool, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yields (name, layer) for the outermost layers in training mode or, if `training` is false, in evaluation mode."""
    if getattr(layer, "training", training) != training:  # a frozen TorchScript module has no mode
        for child_name, child in layer.named_children():
            yield from _in_mode(child, training=training, name=f"{name}.{child_name}" if name else child_name)
    elif has_mode(layer):
        yield name or "the network", layer


def in_other_mode(network: nn.Module, *, training: bool) -> list[str]:
    """Returns the names of layers that are in evaluation mode if `training`, else of layers in training mode.

    In training, layers that have only frozen weights are not returned, because users often leave them in evaluation
    mode on purpose. A layer without weights, and any layer in inference, is returned only if its output depends on the
    mode.
    """
    names = []
    for name, layer in _in_mode(network, training=not training):
        parameters = list(layer.parameters())
        counts = any(isinstance(part, MODAL) for part in layer.modules())
        if training and parameters:
            counts = any(weight.requires_grad for weight in parameters)
        if counts:
            names.append(name)
    return names


class Modeless(nn.Module):
    """Wraps a module without training and evaluation modes, such as a frozen or an exported module."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.network(*args, **kwargs)

    def train(self, mode: bool = True) -> Self:
        return self


def with_modes(network: nn.Module) -> nn.Module:
    """Returns the network, wrapped in `Modeless` if its mode can't be set."""
    for layer in network.modules():
        if not hasattr(layer, "training"):  # a frozen module; Lightning reads the mode
            vars(layer)["training"] = False
    modes = modes_of(network)
    takes_modes = True
    try:
        network.train(network.training)
    except Exception:  # TorchScript raises AttributeError, torch.export NotImplementedError
        takes_modes = False
    set_modes(network, modes)  # restores modes that its constructor has set
    return network if takes_modes else Modeless(network)


def has_mode(layer: nn.Module) -> bool:
    """Returns True if the layer has a training and an evaluation mode. Frozen and exported modules do not."""
    return not isinstance(layer, Modeless | torch.jit.ScriptModule | torch.fx.GraphModule) and hasattr(
        layer, "training"
    )


def modes_of(network: nn.Module) -> list[bool]:
    """For each layer, whether it is in training mode."""
    return [getattr(layer, "training", False) for layer in network.modules()]


def set_modes(network: nn.Module, modes: Sequence[bool]) -> None:
    """Sets the mode of each layer. `modes` is the result of `modes_of` for a network with the same layers.

    If the number of layers differs, does nothing.
    """
    layers = list(network.modules())
    if len(layers) != len(modes):
        return
    for layer, training in zip(layers, modes, strict=True):
        if has_mode(layer):
            layer.training = training
