"""What an engine that compiles a network of PyTorch has to do, and what such engines share."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.pytorch.structure import mapped, tensors_in
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell
from accelbench.schema.text import beginning, message_of, one_line
from accelbench.schema.vocab import Precision

MAX_WHY = 300  # characters of an exporter's error


@dataclass(frozen=True)
class Call:
    """The arguments of one call of a network's `forward`."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    any_size: bool = False  # whether a network that is exported for it takes tensors of any size in the first dimension

    def tensors(self) -> list[Tensor]:
        """The tensors, in the order in which an exported network takes them."""
        if len(self.args) == 1 and not self.kwargs and isinstance(self.args[0], Tensor):
            return [self.args[0]]
        return list(tensors_in((self.args, dict(self.kwargs))))


def call_of(*args: Any, **kwargs: Any) -> Call:
    """To be given to a task in the place of a network: returns what the network would be called with."""
    return Call(args, kwargs)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What an engine says of a network that it has compiled, read back from it."""

    computed: str  # the dtype of weights and matrix products, by its name in NumPy
    threads: int | None  # that compute
    formats: Mapping[str, int] = field(default_factory=dict)  # -> how many matrix products compute in it
    times: Sequence[tuple[str, float]] = ()  # the operators of one profiled call in turn: name and seconds


class Compiler:
    """An engine: a network -> a file -> what runs, perhaps in another process; an UnsupportedError if it can't be."""

    computes_in: Precision | None = Precision.fp32  # what the network and its inputs are given in; None: the cell's

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def export(self, network: nn.Module, call: Call, folder: Path) -> Any:
        """The network in a form that `save` takes, or the path of a file in `folder` that has it."""
        raise NotImplementedError

    def quantized(self, exported: Any, calls: Sequence[Call], folder: Path) -> Any:
        """What `export` returned, with int8 matrix products; `calls` show the ranges of activations."""
        raise NotImplementedError

    def save(self, exported: Any, folder: Path) -> Path:
        """The file to load, beside which there may be others that belong to it; it may be compiled before."""
        return exported

    def load(self, path: Path, threads: int) -> None:
        """Makes the network ready to run on this machine, from what `save` returned, perhaps in another process."""
        raise NotImplementedError

    def __call__(self, call: Call) -> Sequence[Tensor]:
        """The output's tensors; a further call may overwrite them."""
        raise NotImplementedError

    def ran(self, call: Call) -> Ran:
        """Returns the operators that ran. It may run `call` once more under a profiler: measure everything before."""
        raise NotImplementedError


class GivesTensors(nn.Module):
    """A network that gives the tensors in the output of another one."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        return tuple(tensors_in(self.network(*args, **kwargs)))


@contextmanager
def skipping(exporter: str) -> Iterator[None]:
    """Turns what an exporter raises into the UnsupportedError that skips a cell, with the beginning of its message."""
    try:
        yield
    except Exception as error:  # it runs the user's code, which may raise anything
        why = beginning(one_line(message_of(error)), MAX_WHY)
        raise UnsupportedError(f"{exporter} can't take the network: {type(error).__name__}: {why}") from error


def program_of(network: nn.Module, call: Call) -> torch.export.ExportedProgram:
    """The network as PyTorch exports it, for inputs of these shapes."""
    args = call.args
    kwargs = dict(call.kwargs)
    shapes = None
    if call.any_size:  # by the names that `GivesTensors` gives the arguments
        named = {name: value for name, value in (("args", args), ("kwargs", kwargs)) if value}
        first: Any = {0: torch.export.Dim.DYNAMIC}
        shapes = mapped(named, lambda tensor: first)
    with skipping("torch.export"), torch.no_grad():
        program = torch.export.export(GivesTensors(network).eval(), args, kwargs, dynamic_shapes=shapes, strict=False)
    return program  # noqa: RET504  # for mypy a context may swallow errors
