"""What the engines that run an exported network of PyTorch do not support."""

from accelbench.devices import packages
from accelbench.devices.cpu import has_any
from accelbench.devices.registry import DeviceReport
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import EXPORTING, QUANTIZED, Device, Engine, Library, Mode, Precision

# The modules that each engine needs, besides torch.
MODULES = {
    Engine.onnxruntime: ("onnxruntime", "onnx", "onnxscript"),
    Engine.openvino: ("openvino",),
    Engine.aotinductor: (),
}
PRECISIONS = {
    Engine.onnxruntime: (Precision.fp32, Precision.int8),
    Engine.openvino: (Precision.fp32, Precision.bf16, Precision.fp16, Precision.int8),
    Engine.aotinductor: (Precision.fp32, Precision.bf16, Precision.fp16, Precision.fp64, Precision.int8),
}
# The modules that quantise a network for an engine.
QUANTIZERS = {Engine.onnxruntime: (), Engine.openvino: ("nncf",), Engine.aotinductor: ("torchao",)}
TORCH_OF_TORCHAO = "2.9"  # what the release of the extra is made for
# The instruction sets, any of which OpenVINO needs to compute in a format.
NEEDED = {Precision.bf16: ("avx512_bf16", "amx_bf16"), Precision.fp16: ("avx512_fp16", "amx_fp16")}
OPTIONS = {Engine.aotinductor: ("channels_last", "freeze")}  # that an engine takes


def why_not(cell: Cell, report: DeviceReport) -> str | None:
    """Why the cell's engine can't run it, in one line that names an alternative.

    Returns:
        None if it is supported, or if the engine exports no network.
    """
    if cell.engine not in EXPORTING:
        return None
    rules = (_missing, _torchao, _on_cpu, _precision, _options, _network)
    return next((reason for rule in rules if (reason := rule(cell, report))), None)


def _missing(cell: Cell, report: DeviceReport) -> str | None:
    quantizers = QUANTIZERS[cell.engine] if cell.precision in QUANTIZED else ()
    needed = [*MODULES[cell.engine], *quantizers]
    missing = next((name for name in needed if packages.folder(name) is None), None)
    if missing is None:
        return None
    where = f"engine={cell.engine}" if missing not in quantizers else f"engine={cell.engine} precision={cell.precision}"
    return f"{where}: {missing} is not installed: {packages.how_to_install(cell.engine)}"


def _torchao(cell: Cell, report: DeviceReport) -> str | None:
    """Its releases fit one release of torch each, and say no bound; of this one, other releases of torch lack parts."""
    if cell.engine != Engine.aotinductor or cell.precision not in QUANTIZED:
        return None
    found = packages.version("torch") or ""
    if found.startswith(f"{TORCH_OF_TORCHAO}."):
        return None
    return (
        f"engine=aotinductor precision={cell.precision}: torchao needs torch {TORCH_OF_TORCHAO}, and {found} is "
        "installed: use engine=onnxruntime or engine=openvino"
    )


def _on_cpu(cell: Cell, report: DeviceReport) -> str | None:
    instead = "or engine=lightning"
    if cell.device != Device.cpu:
        return f"engine={cell.engine} runs on the CPU here: use device=cpu, {instead}"
    if cell.mode != Mode.infer:
        return f"engine={cell.engine} runs inference: use mode=infer, {instead}"
    if cell.devices > 1:
        return f"engine={cell.engine} runs on one device: use devices=1, {instead}"
    return None


def _precision(cell: Cell, report: DeviceReport) -> str | None:
    words = PRECISIONS[cell.engine]
    if cell.precision not in words:
        return f"engine={cell.engine} has no {cell.precision} on the CPU: use {' or '.join(words)}"
    if cell.engine != Engine.openvino or cell.precision not in NEEDED:
        return None
    needed = NEEDED[cell.precision]
    if has_any(report, needed):
        return None
    return f"OpenVINO computes in {cell.precision} with {' or '.join(needed)}, which this CPU lacks: use fp32"


def _options(cell: Cell, report: DeviceReport) -> str | None:
    refused = [name for name in cell.options.of_network if name not in OPTIONS.get(cell.engine, ())]
    if not refused:
        return None
    why = "compiles the network itself" if cell.engine == Engine.aotinductor else "chooses layouts and constants itself"
    return f"{refused[0]}=true: {cell.engine} {why}: use {refused[0]}=false"


def _network(cell: Cell, report: DeviceReport) -> str | None:
    if cell.model.library == Library.lightning:
        return f"model=lightning: Lightning runs its modules: use engine=lightning, or model=custom for {cell.engine}"
    return None
