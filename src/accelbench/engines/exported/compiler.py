"""The base class of engines that export and compile PyTorch's networks. Also has functions that these engines share."""

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
    any_size: bool = False  # whether the exported network must accept any size of the first dimension

    def tensors(self) -> list[Tensor]:
        """Returns the tensors of the arguments in the order of the exported network's inputs."""
        if len(self.args) == 1 and not self.kwargs and isinstance(self.args[0], Tensor):
            return [self.args[0]]
        return list(tensors_in((self.args, dict(self.kwargs))))


def call_of(*args: Any, **kwargs: Any) -> Call:
    """Returns its arguments as a `Call`.

    `task.infer(network, batch)` calls the network. `task.infer(call_of, batch)` returns the arguments of this call.
    """
    return Call(args, kwargs)


@dataclass(frozen=True, kw_only=True)
class EngineReport:
    """The engine's report on a compiled network. The engine makes it after the network ran."""

    computed: str  # the dtype of weights and matrix products, by its name in NumPy
    threads: int  # number of threads that compute
    formats: Mapping[str, int] = field(default_factory=dict)  # format -> number of matrix products in this format
    times: Sequence[tuple[str, float]] = ()  # (name, seconds) of each operator in one profiled call, in order


class Compiler:
    """The base class of engines that export a network to a file, load the file, and run the network.

    Another process may load the file. The methods raise UnsupportedError if the network can't be exported or run.
    """

    computes_in: Precision | None = Precision.fp32  # precision of the network to export; None: the cell's

    def __init__(self, cell: Cell) -> None:
        self.cell = cell

    def export(self, network: nn.Module, call: Call, folder: Path) -> Any:
        """Exports the network. Returns an object that `save` accepts; this may be the path of a file in `folder`."""
        raise NotImplementedError

    def quantized(self, exported: Any, calls: Sequence[Call], folder: Path) -> Any:
        """Quantises the result of `export`, so that matrix products run in int8. Calibrates with the inputs `calls`."""
        raise NotImplementedError

    def save(self, exported: Any, folder: Path) -> Path:
        """Writes the network to `folder`. Some engines compile the network first. Returns the file for `load`.

        The network may consist of more files in this folder.
        """
        return exported

    def load(self, path: Path) -> None:
        """Loads a file of `save`, which another process may have written. The network uses as many threads as torch."""
        raise NotImplementedError

    def __call__(self, call: Call) -> Sequence[Tensor]:
        """Runs the network and returns the tensors of its output. The next call may overwrite them."""
        raise NotImplementedError

    def ran(self, call: Call) -> EngineReport:
        """Reports what ran. May run the network again under a profiler, so call it after the measurement."""
        raise NotImplementedError


class TensorOutputs(nn.Module):
    """Wraps a network. The wrapper returns the tensors of the network's output as a tuple."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    # Not `*args` and `**kwargs`: torch.export has no dynamic shapes for these.
    def forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
        return tuple(tensors_in(self.network(*args, **kwargs)))


@contextmanager
def skipping(exporter: str) -> Iterator[None]:
    """A context that converts any exception of an exporter to UnsupportedError, so that the cell is skipped."""
    try:
        yield
    except Exception as error:  # any exception: an exporter runs the user's code
        why = beginning(one_line(message_of(error)), MAX_WHY)
        raise UnsupportedError(f"{exporter} can't convert the network: {type(error).__name__}: {why}") from error


def program_of(network: nn.Module, call: Call) -> torch.export.ExportedProgram:
    """Exports the network with torch.export, for inputs with the shapes of the tensors in `call`.

    If `call.any_size`, the first dimension of the inputs may have any size.
    Raises UnsupportedError if the export fails.
    """
    inputs = call.args, dict(call.kwargs)
    shapes, exporter = None, "torch.export"
    if call.any_size:
        first: Any = {0: torch.export.Dim.DYNAMIC}
        shapes = mapped(inputs, lambda tensor: first)
        exporter = "torch.export for any batch size (use server.max_batch=1, or engine=pytorch)"
    with skipping(exporter), torch.no_grad():
        program = torch.export.export(TensorOutputs(network).eval(), inputs, dynamic_shapes=shapes, strict=False)
    return program  # noqa: RET504  # mypy assumes that a context may suppress exceptions
