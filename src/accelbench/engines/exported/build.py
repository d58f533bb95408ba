"""The network of a cell in PyTorch, as an engine gets it: built, and called with tensors."""

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from accelbench.devices.cpu import usable_cores
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.denormals import Denormals, some_values
from accelbench.engines.lightning.global_state import use_threads
from accelbench.engines.lightning.precision import STORED_DTYPES
from accelbench.engines.lightning.ranks import Ranks
from accelbench.engines.lightning.structure import mapped, tensors_in
from accelbench.engines.lightning.trainer import hush_lightning
from accelbench.engines.lightning.workloads import workload_of
from accelbench.engines.sources import check_has_epochs
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell
from accelbench.schema.text import beginning, message_of, one_line
from accelbench.schema.vocab import QUANTIZED, Precision

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


def cpu_of(cell: Cell) -> Backend:
    """The CPU, set for a cell."""
    hush_lightning()
    use_threads(usable_cores() if cell.threads is None else cell.threads)
    backend = Backend()
    backend.prepare(allow_tf32=False)
    if cell.options.flush_denormals:
        backend.flush_denormals()
    return backend


class BuiltNetwork:
    """The network of `cell`, and its batches.

    Args:
        cell: inference on the CPU.
        data_folder: where the data set's arrays are.
        backend: as `cpu_of` returns it.
        computes_in: the precision that the engine takes networks in; None: that of the cell.

    Raises:
        UnsupportedError: the cell can't run, with the reason.

    Attributes:
        precision: of the network and its inputs.
        build_s: time to build the network.
    """

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend, computes_in: Precision | None) -> None:
        check_has_epochs(cell)
        self.cell, self.backend = cell, backend
        self.quantizes = cell.precision in QUANTIZED
        self.precision = computes_in or (Precision.fp32 if self.quantizes else cell.precision)
        self.workload = workload_of(replace(cell, precision=self.precision), data_folder, backend, Ranks(1))
        start = time.perf_counter()
        pl.seed_everything(cell.seed, verbose=False)
        network = self.workload.build().eval().to(self.dtype)
        if cell.options.channels_last:
            self.workload.check_layout()
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network = network
        self.build_s = time.perf_counter() - start

    @property
    def dtype(self) -> torch.dtype:
        """Of the network and its inputs."""
        return STORED_DTYPES[self.precision]

    def call(self) -> Call:
        """A call with a whole batch."""
        call: Call = self.workload.task.infer(call_of, self.workload.example())  # type: ignore[arg-type]
        return call

    def digest(self) -> str:
        """The digest of what is exported: the weights, of a large tensor a part of them, and a call's arguments."""
        call = self.call()
        arguments = mapped((call.args, call.kwargs), _described)
        found = hashlib.blake2b(repr(arguments).encode(), digest_size=16)
        for name, tensor in chain(self.network.named_parameters(), self.network.named_buffers()):
            found.update(f"{name} {_described(tensor)}".encode())
            found.update(some_values(tensor).contiguous().view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

    def run_in_torch(self) -> Denormals:
        """Checks the output in PyTorch, and finds denormal numbers: what is compiled does not show its layers'."""
        denormals = Denormals()
        looks = not self.backend.flushes_denormals
        if looks:
            denormals.look_at_weights(self.network)
        self._use_dtype()
        with torch.no_grad(), denormals.looking_at_outputs(self.network) if looks else nullcontext():
            self.workload.check_first(self.workload.task.infer(self.network, self.workload.example()))
        self.backend.hold(self.dtype)
        return denormals

    def hold(self) -> None:
        """Sets what is global in PyTorch again: the user's code has run. To be called where `run_in_torch` is not."""
        self._use_dtype()
        self.backend.hold(self.dtype)

    def _use_dtype(self) -> None:
        """New tensors get the network's format, as Lightning has it around a step."""
        if torch.get_default_dtype() == torch.float32:  # else the user's code has changed it, as `Backend.hold` notes
            torch.set_default_dtype(self.dtype)


def _described(tensor: Any) -> Any:
    return f"{tensor.dtype} {tuple(tensor.shape)}"
