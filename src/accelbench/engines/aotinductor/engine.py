"""The engine AOTInductor: a network of PyTorch, exported and compiled to a library before it runs."""

import re
import tempfile
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from accelbench.engines.exported import run as exported_run
from accelbench.engines.exported.compiler import Call, Compiler, Ran, program_of, skipping
from accelbench.engines.formats import computed_in
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import QUANTIZED, Precision

FILE = "network.pt2"
# Operators that multiply matrices, as torch.export names them.
PRODUCTS = frozenset({"linear", "conv1d", "conv2d", "conv3d", "matmul", "mm", "addmm", "bmm", "baddbmm", "einsum"})
# A call of oneDNN's products of integers in the source that inductor writes.
INTEGER_CALL = re.compile(r"aoti_torch_cpu__q(?:conv|linear)\w*\(")


class AotInductor(Compiler):
    """A compiled library and its weights, which runs in PyTorch's threads."""

    computes_in: Precision | None = None

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        self.quantizes = cell.precision in QUANTIZED
        self.outputs: Sequence[Tensor]

    def export(self, network: nn.Module, call: Call, folder: Path) -> torch.export.ExportedProgram:
        return program_of(network, call, strict=self.quantizes)  # the quantiser finds layers by their names

    def quantized(
        self, exported: torch.export.ExportedProgram, calls: Sequence[Call], folder: Path
    ) -> torch.export.ExportedProgram:
        """By torchao's PT2E, as inductor fuses it on x86."""
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        quantizer = x86.X86InductorQuantizer()
        quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
        with skipping("torchao's PT2E"), torch.no_grad():
            prepared = prepare_pt2e(exported.module(), quantizer)
            for call in calls:
                prepared(*call.args, **call.kwargs)
            converted = convert_pt2e(prepared)
            quantized = torch.export.export(converted, calls[0].args, dict(calls[0].kwargs), strict=False)
        return quantized  # noqa: RET504  # for mypy a context may swallow errors

    def save(self, exported: torch.export.ExportedProgram, folder: Path) -> Path:
        """Compiled, with its weights as constants if the cell says `freeze`; inductor's cache is empty, as at first."""
        import torch._inductor.config as inductor
        from torch._inductor.utils import fresh_cache

        inductor.freezing = self.cell.options.freeze or self.quantizes  # only constant weights are packed as integers
        # Weights are constants for inductor only where no gradients are needed.
        with (
            skipping("AOTInductor"),
            torch.no_grad(),
            tempfile.TemporaryDirectory(prefix="inductor-") as cache,
            fresh_cache(dir=cache),
        ):
            path = torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / FILE))
        self.formats = _formats(exported, Path(path)) if self.quantizes else {}
        return Path(path)

    def load(self, path: Path, threads: int) -> None:
        self.package = torch._inductor.aoti_load_package(str(path))

    def __call__(self, call: Call) -> Sequence[Tensor]:
        with torch.inference_mode():
            self.outputs = self.package(*call.args, **call.kwargs)
        return self.outputs

    def ran(self, call: Call) -> Ran:
        """From the output, since the library does not say what its operators compute in; int8 from its source."""
        if self.formats:
            computed = computed_in(self.formats)
        else:
            floats = [tensor for tensor in self.outputs if tensor.is_floating_point()]
            computed = str(floats[0].dtype).removeprefix("torch.") if floats else "no floating-point output"
        return Ran(computed=computed, threads=torch.get_num_threads(), formats=self.formats)


def _formats(exported: torch.export.ExportedProgram, package: Path) -> dict[str, int]:
    """The formats of the matrix products of a quantised network: integers where the compiled code calls for them."""
    names = [str(getattr(node.target, "_opname", "")) for node in exported.graph.nodes if node.op == "call_function"]
    with zipfile.ZipFile(package) as files:
        sources = [files.read(name).decode() for name in files.namelist() if name.endswith(".cpp")]
    num_integers = sum(len(INTEGER_CALL.findall(source)) for source in sources)
    num_others = sum(name in PRODUCTS for name in names) - num_integers
    return {name: num for name, num in (("uint8", num_integers), ("float32", num_others)) if num > 0}


export, run = partial(exported_run.export, AotInductor), partial(exported_run.run, AotInductor)
