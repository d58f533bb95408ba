"""The weights of a network in PyTorch while it trains; see `measuring.training`."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.measuring.training import State, States, Training

BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by the bytes of a number


def trainable(network: nn.Module) -> dict[str, nn.Parameter]:
    """The tensors that are trained, by their names."""
    return {name: each for name, each in network.named_parameters() if each.requires_grad}


def states(parameters: Mapping[str, Tensor]) -> dict[str, State]:
    """Their states: every number is read once on its device."""
    return {name: _state(each.detach()) for name, each in parameters.items() if each.numel()}


def _state(tensor: Tensor) -> State:
    values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    if values.device.type == "xla":  # it would compile these operators
        values = values.cpu()
    bits = values.contiguous().view(BITS[values.element_size()])
    low, high = torch.aminmax(values)  # a NaN makes both NaN
    return State(int(bits.sum(dtype=torch.int64)), max(abs(float(low)), abs(float(high))))


@contextmanager
def noting_gradients(parameters: Mapping[str, Tensor], into: Training) -> Iterator[None]:
    """While it is entered, notes which of the parameters get a gradient, whatever becomes of it afterwards."""
    into.gradients = set() if into.gradients is None else into.gradients
    handles = [each.register_post_accumulate_grad_hook(_noting(name, into)) for name, each in parameters.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _noting(name: str, into: Training) -> Any:
    def note(parameter: Tensor) -> None:
        into.reached.add(name)
        if into.gradients is not None and parameter.grad is not None and bool((parameter.grad != 0).any()):
            into.gradients.add(name)

    return note


class TrainedNetwork:
    """Notes what becomes of the weights of a network.

    Args:
        network: whose weights on their device are looked at.
        into: gets what is seen.
    """

    def __init__(self, network: nn.Module, into: Training) -> None:
        self.network, self.into = network, into

    def begin(self) -> None:
        """Before the first step."""
        self.into.names = list(trainable(self.network))

    def states(self) -> States:
        """Of the tensors that were trainable when the first step began."""
        return states({name: each for name, each in self.network.named_parameters() if name in self.into.names})

    def note_settings(self, optimizers: Iterable[Any]) -> None:
        """After the steady state: what the weights are trained with."""
        parameters = {name: each for name, each in self.network.named_parameters() if name in self.into.names}
        self.into.is_coarse = is_coarse(parameters)
        self.into.sizes = {name: each.numel() for name, each in parameters.items()}
        self.into.learning_rates = [group["lr"] for each in optimizers for group in each.param_groups]
        self.into.evaluating = evaluating(self.network)


def is_coarse(parameters: Mapping[str, Tensor]) -> bool:
    """Whether any has numbers of 16 bits."""
    return any(each.element_size() <= 2 for each in parameters.values())


def in_mode(network: nn.Module, *, training: bool) -> list[tuple[str, nn.Module]]:
    """The topmost layers that are in training mode, or in evaluation mode."""
    found: list[tuple[str, nn.Module]] = []

    def search(name: str, layer: nn.Module) -> None:
        if layer.training == training:
            found.append((name or "the network", layer))
            return
        for child_name, child in layer.named_children():
            search(f"{name}.{child_name}" if name else child_name, child)

    search("", network)
    return found


def evaluating(network: nn.Module) -> list[str]:
    """Layers in evaluation mode that should train: not those whose weights are all frozen, which often stay in it."""
    return [name for name, layer in in_mode(network, training=False) if _has_part(layer)]


def _has_part(layer: nn.Module) -> bool:
    parameters = list(layer.parameters())
    return any(each.requires_grad for each in parameters) if parameters else _drops(layer)


def training_in_inference(network: nn.Module) -> tuple[list[str], list[str]]:
    """Layers in training mode: those that drop at random, perhaps on purpose, and those that change otherwise."""
    found = in_mode(network, training=True)
    of_dropout = [name for name, layer in found if _drops(layer)]
    others = [name for name, layer in found if not _drops(layer) and _changes(layer)]
    return of_dropout, others


def _drops(layer: nn.Module) -> bool:
    return isinstance(layer, nn.modules.dropout._DropoutNd)


def _changes(layer: nn.Module) -> bool:
    """Whether the mode makes a difference, as far as torch's layers tell: the user's own may look at it too."""
    return not type(layer).__module__.startswith("torch.nn") or any(
        _drops(each) or isinstance(each, nn.modules.batchnorm._NormBase) for each in layer.modules()
    )
