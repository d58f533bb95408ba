"""The engine AOTInductor: a network of PyTorch, exported and compiled to a library before it runs."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from accelbench.engines.exported import run as exported_run
from accelbench.engines.exported.compiler import Call, Compiler, Ran, program_of, skipping
from accelbench.schema.vocab import Precision

FILE = "network.pt2"


class AotInductor(Compiler):
    """A compiled library and its weights, which runs in PyTorch's threads."""

    computes_in: Precision | None = None
    outputs: Sequence[Tensor]

    def export(self, network: nn.Module, call: Call, folder: Path) -> torch.export.ExportedProgram:
        return program_of(network, call)

    def save(self, exported: torch.export.ExportedProgram, folder: Path) -> Path:
        """Compiled, with its weights as constants if the cell says `freeze`; inductor's cache is empty, as at first."""
        import torch._inductor.config as inductor
        from torch._inductor.utils import fresh_cache

        inductor.freezing = self.cell.options.freeze
        # Weights are constants for inductor only where no gradients are needed.
        with skipping("AOTInductor"), torch.no_grad(), fresh_cache():
            path = torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / FILE))
        return Path(path)

    def load(self, path: Path, threads: int) -> None:
        self.package = torch._inductor.aoti_load_package(str(path))

    def __call__(self, call: Call) -> Sequence[Tensor]:
        with torch.inference_mode():
            self.outputs = self.package(*call.args, **call.kwargs)
        return self.outputs

    def ran(self, call: Call) -> Ran:
        """From the output, since the library does not say what its operators compute in."""
        floats = [tensor for tensor in self.outputs if tensor.is_floating_point()]
        computed = str(floats[0].dtype).removeprefix("torch.") if floats else "no floating-point output"
        return Ran(computed=computed, threads=torch.get_num_threads())


export = partial(exported_run.export, AotInductor)
run = partial(exported_run.run, AotInductor)
