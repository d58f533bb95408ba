"""The engine AOTInductor: a network of PyTorch, exported and compiled to a library before it runs."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from accelbench.engines.exported import run as exported_run
from accelbench.engines.exported.network import Call, exported, not_exportable
from accelbench.engines.exported.run import Ran
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import Precision
from accelbench.schema.work import Work

FILE = "network.pt2"


def run(cell: Cell, data_folder: Path, work: Work | None = None) -> Measurement | None:
    """See `exported.run.run`."""
    return exported_run.run(cell, data_folder, _AotInductor(), work)


class _AotInductor:
    """See `exported.run.Compiler`."""

    computes_in: Precision | None = None

    def export(self, network: nn.Module, call: Call, folder: Path) -> torch.export.ExportedProgram:
        """Through PyTorch's exporter, for inputs of exactly these shapes."""
        return exported(network, call)

    def compile(self, exported: torch.export.ExportedProgram, cell: Cell, threads: int, folder: Path) -> "_Package":
        """With its weights as constants if the cell says `freeze`; inductor's cache is empty, as on first use."""
        import torch._inductor.config as inductor
        from torch._inductor.utils import fresh_cache

        inductor.freezing = cell.options.freeze
        try:
            with tempfile.TemporaryDirectory(prefix="inductor-") as cache, fresh_cache(dir=cache):
                path = torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / FILE))
        except Exception as error:
            raise not_exportable("AOTInductor", error) from error
        return _Package(path)


class _Package:
    """A compiled library and its weights."""

    def __init__(self, path: str) -> None:
        self.package = torch._inductor.aoti_load_package(path)
        self.outputs: Sequence[Tensor]

    def __call__(self, call: Call) -> Sequence[Tensor]:
        """One call."""
        with torch.inference_mode():
            self.outputs = self.package(*call.args, **call.kwargs)
        return self.outputs

    def ran(self, call: Call) -> Ran:
        """From the output: the library keeps the formats of its operators to itself."""
        floats = [tensor for tensor in self.outputs if tensor.is_floating_point()]
        name = str(floats[0].dtype).removeprefix("torch.") if floats else "no floating-point output"
        return Ran(stored=name, computed=name, threads=torch.get_num_threads())
