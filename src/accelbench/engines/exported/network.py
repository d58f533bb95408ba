"""The network of a cell as an engine gets it: called with tensors, and giving tensors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.lightning.structure import tensors_in
from accelbench.errors import UnsupportedError
from accelbench.schema.text import beginning, message_of, one_line

MAX_WHY = 300  # characters of an exporter's error


@dataclass(frozen=True)
class Call:
    """The arguments of one call of a network's `forward`."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def tensors(self) -> list[Tensor]:
        """The tensors, in the order in which an exported network takes them."""
        if len(self.args) == 1 and not self.kwargs and isinstance(self.args[0], Tensor):
            return [self.args[0]]
        return list(tensors_in((self.args, dict(self.kwargs))))


def call_of(*args: Any, **kwargs: Any) -> Call:
    """To be given to a task in the place of a network: returns what the network would be called with."""
    return Call(args, kwargs)


class GivesTensors(nn.Module):
    """A network whose output is a tuple of the tensors in the output of another one.

    Args:
        network: the other one.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """The tensors."""
        return tuple(tensors_in(self.network(*args, **kwargs)))


def program_of(network: nn.Module, call: Call, *, strict: bool = False) -> torch.export.ExportedProgram:
    """The network as PyTorch exports it, for inputs of exactly these shapes.

    Args:
        network: any.
        call: with inputs.
        strict: whether Python's bytecode is analysed, which takes fewer networks and keeps the layers' names.

    Raises:
        UnsupportedError: it can't be exported; with the exporter's own sentence.
    """
    try:
        with torch.no_grad():
            return torch.export.export(GivesTensors(network).eval(), call.args, dict(call.kwargs), strict=strict)
    except Exception as error:  # it runs the user's code, which may raise anything
        raise not_exportable("torch.export", error) from error


def not_exportable(exporter: str, error: BaseException) -> UnsupportedError:
    """The error that skips a cell, with the first line of what the exporter said."""
    lines: Iterator[str] = filter(None, (line.strip() for line in message_of(error).splitlines()))
    why = beginning(one_line(next(lines, "")), MAX_WHY)
    kind = type(error).__name__
    return UnsupportedError(f"{exporter} can't take the network: {kind}: {why}" if why else f"{exporter}: {kind}")
