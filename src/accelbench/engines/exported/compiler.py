"""The base class of engines that export and compile networks of PyTorch, and functions that they share."""

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
    any_size: bool = False  # whether the exported network should accept any size of the first dimension

    def tensors(self) -> list[Tensor]:
        """The tensors, in the order of the inputs of the exported network."""
        if len(self.args) == 1 and not self.kwargs and isinstance(self.args[0], Tensor):
            return [self.args[0]]
        return list(tensors_in((self.args, dict(self.kwargs))))


def call_of(*args: Any, **kwargs: Any) -> Call:
    """Records the arguments of a call. Pass it to a task instead of a network to get the network's arguments."""
    return Call(args, kwargs)


@dataclass(frozen=True, kw_only=True)
class EngineReport:
    """The engine's report about a compiled network, read back after it ran."""

    computed: str  # the dtype of weights and matrix products, by its name in NumPy
    threads: int | None  # number of threads that compute
    formats: Mapping[str, int] = field(default_factory=dict)  # format -> number of matrix products in this format
    times: Sequence[tuple[str, float]] = ()  # (name, seconds) of each operator in one profiled call, in order


class Compiler:
    """The base class of such an engine: exports a network to a file, loads the file, and runs it.

    Another process may load the file. The methods raise UnsupportedError if the network can't be exported or run.
    """

    computes_in: Precision | None = Precision.fp32  # precision of the network to export; None: the cell's

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def export(self, network: nn.Module, call: Call, folder: Path) -> Any:
        """Exports the network. Returns an object for `save`, or the path of a file in `folder`."""
        raise NotImplementedError

    def quantized(self, exported: Any, calls: Sequence[Call], folder: Path) -> Any:
        """Quantises the result of `export` to int8 matrix products, calibrated with the inputs `calls`."""
        raise NotImplementedError

    def save(self, exported: Any, folder: Path) -> Path:
        """Writes the network to `folder`, compiled if the engine does so here. Returns the path of the file to load.

        Other files of the network may be in the same folder.
        """
        return exported

    def load(self, path: Path, threads: int) -> None:
        """Loads a file of `save` on this machine. Another process may have written the file."""
        raise NotImplementedError

    def __call__(self, call: Call) -> Sequence[Tensor]:
        """Runs the network and returns the tensors of its output. The next call may overwrite them."""
        raise NotImplementedError

    def ran(self, call: Call) -> EngineReport:
        """Reports what ran. It may run `call` again under a profiler, so call it after the measurement."""
        raise NotImplementedError


class TensorOutputs(nn.Module):
    """Wraps a network: returns the tensors of its output as a tuple."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        return tuple(tensors_in(self.network(*args, **kwargs)))


@contextmanager
def skipping(exporter: str) -> Iterator[None]:
    """A context that converts an exporter's exception to UnsupportedError, which skips the cell."""
    try:
        yield
    except Exception as error:  # any exception: an exporter runs the user's code
        why = beginning(one_line(message_of(error)), MAX_WHY)
        raise UnsupportedError(f"{exporter} can't take the network: {type(error).__name__}: {why}") from error


def program_of(network: nn.Module, call: Call) -> torch.export.ExportedProgram:
    """Exports the network with torch.export, for inputs of the shapes in `call`. Raises UnsupportedError."""
    args = call.args
    kwargs = dict(call.kwargs)
    shapes = None
    if call.any_size:  # the keys are the argument names of `TensorOutputs.forward`
        named = {name: value for name, value in (("args", args), ("kwargs", kwargs)) if value}
        first: Any = {0: torch.export.Dim.DYNAMIC}
        shapes = mapped(named, lambda tensor: first)
    with skipping("torch.export"), torch.no_grad():
        program = torch.export.export(TensorOutputs(network).eval(), args, kwargs, dynamic_shapes=shapes, strict=False)
    return program  # noqa: RET504  # mypy assumes that a context may suppress exceptions
