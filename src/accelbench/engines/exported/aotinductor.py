"""The engine AOTInductor: exports a network of PyTorch and compiles it to a library before it runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from accelbench.engines.exported.engine import Compiler, EngineReport, Inputs, skipping
from accelbench.engines.pytorch.options import empty_cache
from accelbench.schema.cell import Precision

FILE = "network.pt2"


class Compiled(Compiler):
    """A compiled library with its weights. It runs in PyTorch's threads."""

    computes_in: Precision | None = None
    outputs: Sequence[Tensor]

    def save(self, exported: ExportedProgram, folder: Path) -> Path:
        """Compiles the network and writes the library. With `options.freeze`, the library has the weights as constants.

        The compiler begins with an empty cache, so that every compilation takes as long as the first one.
        """
        configs = {"freezing": self.cell.options.freeze}
        # no_grad, because inductor treats weights as constants only without gradients.
        with skipping("AOTInductor"), torch.no_grad(), empty_cache():
            path = torch._inductor.aoti_compile_and_package(
                exported, package_path=str(folder / FILE), inductor_configs=configs
            )
        return Path(path)

    def load(self, path: Path) -> None:
        self.package = torch._inductor.aoti_load_package(str(path))

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        with torch.inference_mode():
            self.outputs = self.package(args, kwargs)
        return self.outputs

    def ran(self, inputs: Inputs) -> EngineReport:
        """Reports the dtype of the output. The library does not report the dtypes in which its operators computed."""
        floats = [tensor for tensor in self.outputs if tensor.is_floating_point()]
        computed = str(floats[0].dtype).removeprefix("torch.") if floats else "no floating-point output"
        return EngineReport(computed=computed, threads=torch.get_num_threads())
