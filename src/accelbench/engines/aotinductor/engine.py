"""The engine AOTInductor: exports a network of PyTorch and compiles it to a library before it runs."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from accelbench.engines.exported import run as exported_run
from accelbench.engines.exported.compiler import Call, Compiler, EngineReport, program_of, skipping
from accelbench.schema.vocab import Precision

FILE = "network.pt2"


class AotInductor(Compiler):
    """A compiled library with its weights. It runs in PyTorch's threads."""

    computes_in: Precision | None = None
    outputs: Sequence[Tensor]

    def export(self, network: nn.Module, call: Call, folder: Path) -> torch.export.ExportedProgram:
        return program_of(network, call)

    def save(self, exported: torch.export.ExportedProgram, folder: Path) -> Path:
        """Compiles the network and writes the library. With `options.freeze`, the library has the weights as constants.

        The compiler begins with an empty cache, so that every compilation takes as long as the first one.
        """
        import torch._inductor.config as inductor
        from torch._inductor.utils import fresh_cache

        inductor.freezing = self.cell.options.freeze
        # no_grad, because inductor treats weights as constants only without gradients.
        with skipping("AOTInductor"), torch.no_grad(), fresh_cache():
            path = torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / FILE))
        return Path(path)

    def load(self, path: Path) -> None:
        self.package = torch._inductor.aoti_load_package(str(path))

    def __call__(self, call: Call) -> Sequence[Tensor]:
        with torch.inference_mode():
            self.outputs = self.package(call.args, call.kwargs)
        return self.outputs

    def ran(self, call: Call) -> EngineReport:
        """Reports the dtype of the output. The library does not report the dtypes in which its operators computed."""
        floats = [tensor for tensor in self.outputs if tensor.is_floating_point()]
        computed = str(floats[0].dtype).removeprefix("torch.") if floats else "no floating-point output"
        return EngineReport(computed=computed, threads=torch.get_num_threads())


export = partial(exported_run.export, AotInductor)
run = partial(exported_run.run, AotInductor)
