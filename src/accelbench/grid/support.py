"""Whether a cell is supported on this machine, and the reason if it is not."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from accelbench.devices import allocators, packages
from accelbench.devices.cpu import has_any
from accelbench.devices.registry import DeviceReport
from accelbench.grid import exported_support, keras_support
from accelbench.schema.cell import Cell, KerasSettings
from accelbench.schema.vocab import (
    EXPORTING,
    QUANTIZED,
    SHARE_ONE_CPU,
    XLA,
    Allocator,
    Device,
    Engine,
    KerasBackend,
    Library,
    Mode,
    ModelOutput,
    Precision,
    Protocol,
)

FP16 = frozenset({Precision.fp16, Precision.fp16_mixed})
BF16 = frozenset({Precision.bf16, Precision.bf16_mixed})
# Compute capabilities.
VOLTA = (7, 0)  # the first that Triton compiles for
AMPERE = (8, 0)  # the first with TF32 and bfloat16 units

# The compilers that inductor and Triton look for if CXX and CC are not set.
CXX = ["clang++" if sys.platform == "darwin" else "g++"]
C = ["clang", "gcc"]


def why_not(cell: Cell, report: DeviceReport) -> str | None:
    """Why `cell` can't run, or can't give a true number, on the device that `report` describes.

    Returns:
        One line, which names an alternative if there is one; None if the cell is supported.
    """
    reason = _int8(cell) or keras_support.why_not(cell) or exported_support.why_not(cell, report) or _allocator(cell)
    if reason is not None:
        return reason
    is_remote = _is_remote_tpu(cell)
    if not report.present and not is_remote:
        return report.reason
    rules = [_lightning, _lightning_module, _library, _output, _divides, _on_xla, _on_gpu, _on_cpu, _fp16_adam]
    rules += [_options, _flush_denormals, _compiler]
    if not is_remote:
        rules.insert(0, _devices)
    return next((reason for rule in rules if (reason := rule(cell, report))), None)


def _lightning(cell: Cell, report: DeviceReport) -> str | None:
    """PyTorch is missing in the environments of Keras on a GPU and of JAX on a TPU."""
    needed = ("torch", "pytorch_lightning", *(["torch_xla"] if cell.device == Device.tpu else []))
    if cell.engine != Engine.lightning or all(map(packages.folder, needed)):
        return None
    missing = next(name for name in needed if packages.folder(name) is None)
    if missing == "torch_xla":
        return (
            f"device={cell.device}: torch_xla is not installed: {packages.how_to_install('xla')}, or use engine=keras"
        )
    return f"engine=lightning: {missing} is not installed in this environment: use engine=keras, or make setup"


def _int8(cell: Cell) -> str | None:
    if cell.precision not in QUANTIZED or cell.engine in EXPORTING:
        return None
    engines = " or ".join(f"engine={word}" for word in Engine if word in EXPORTING)
    return f"engine={cell.engine} does not quantise networks: for {cell.precision} use {engines}"


def _library(cell: Cell, report: DeviceReport) -> str | None:
    name = cell.model.library.value
    if cell.model.library not in (Library.timm, Library.transformers) or packages.folder(name) is not None:
        return None
    return f"model={name}: {name} is not installed: {packages.how_to_install(name)}"


def _lightning_module(cell: Cell, report: DeviceReport) -> str | None:
    if cell.model.library != Library.lightning:
        return None
    if cell.device in XLA:
        return f"model=lightning: its loop is not measured on {cell.device}: use device=cpu or device=gpu"
    if cell.devices > 1:
        return "model=lightning: its loop is measured on one device: use devices=1"
    if cell.protocol == Protocol.fit:
        return "model=lightning: protocol=fit evaluates on a test set of accelbench's: use protocol=window or steps"
    if changes := cell.options.of_network:
        return f"model=lightning: its network is run as the module made it: use {changes[0]}=false"
    return None


def _output(cell: Cell, report: DeviceReport) -> str | None:
    if cell.model.output == ModelOutput.any and cell.mode == Mode.train and not cell.model.loss:
        return "model.output=any: the built-in loss needs logits: use model.loss, mode=infer or model.output=logits"
    return None


def _is_remote_tpu(cell: Cell) -> bool:
    keras = cell.keras
    by_tensorflow = keras is not None and keras.backend == KerasBackend.tensorflow and keras.tpu != KerasSettings.tpu
    return cell.device == Device.tpu and by_tensorflow


def _devices(cell: Cell, report: DeviceReport) -> str | None:
    if cell.devices == 1:
        return None
    cores = report.details.get("usable_cores")  # several devices of a CPU share its cores
    if cell.devices > int(cores or report.count):
        found = f"{cores} cores" if cores else f"{report.count} of {cell.device}"
        return f"devices={cell.devices}: there are {found}"
    if cell.options.cuda_graphs and cell.mode == Mode.train:
        return f"cuda_graphs=true: gradients are averaged between the graphs of devices={cell.devices}: use devices=1"
    return None


def _divides(cell: Cell, report: DeviceReport) -> str | None:
    if cell.batch_size % cell.devices:
        return f"batch_size={cell.batch_size} does not divide among {cell.devices} devices: choose a multiple"
    return None


def _on_xla(cell: Cell, report: DeviceReport) -> str | None:
    if cell.device not in XLA:
        return None
    if cell.precision == Precision.tf32:
        return _no_tf32(cell.device)
    if cell.xla_processes and cell.device == Device.xla_cpu:
        return "engine.xla_processes=true: PJRT joins no processes on CPUs (pytorch/xla#5342): use false"
    if cell.precision in FP16:
        instead = "bf16" if cell.precision == Precision.fp16 else "bf16_mixed"
        return f"XLA gives wrong numbers in fp16 (seen in BatchNorm on the CPU): use {instead}"
    return None


def _on_gpu(cell: Cell, report: DeviceReport) -> str | None:
    needs_ampere = cell.precision in BF16 or cell.precision == Precision.tf32
    if cell.device != Device.gpu or not needs_ampere or _capability(report) >= AMPERE:
        return None
    found = report.details.get("compute_capability", "an unknown one")
    instead = {Precision.tf32: "fp32", Precision.bf16: "fp32", Precision.bf16_mixed: "fp16_mixed"}[cell.precision]
    return f"{cell.precision} needs compute capability 8.0, {report.name} has {found}: use {instead}"


def _on_cpu(cell: Cell, report: DeviceReport) -> str | None:
    if cell.device != Device.cpu:
        return None
    if cell.precision == Precision.tf32:
        return _no_tf32(cell.device)
    of_torch = cell.engine == Engine.lightning
    if (
        of_torch
        and cell.precision == Precision.fp16_mixed
        and cell.model.is_own("lstm")
        and not _runs_fp16_lstm(cell, report)
    ):
        return f"oneDNN has no fp16 LSTM to {cell.mode} with on this CPU: use bf16_mixed"
    return None


def _fp16_adam(cell: Cell, report: DeviceReport) -> str | None:
    """PyTorch's default epsilon, 1e-8, is below the smallest fp16 number, 6e-8, and so are the squared gradients."""
    if (cell.precision, cell.mode, cell.model.optimizer) != (Precision.fp16, Mode.train, "adam"):
        return None
    if cell.model.library == Library.lightning:  # its own optimiser runs
        return None
    lstm_on_cpu = cell.device == Device.cpu and cell.model.is_own("lstm")
    instead = "bf16_mixed" if lstm_on_cpu else "fp16_mixed"
    return f"Adam's epsilon underflows in fp16 and the weights turn non-finite: use {instead}"


def _options(cell: Cell, report: DeviceReport) -> str | None:
    options = cell.options
    if options.freeze and cell.mode == Mode.train:
        return "freeze=true makes the weights constants, and training changes them: use mode=infer"
    if options.compile and cell.device in XLA:
        return "compile=true: XLA compiles every network anyway: use compile=false"
    if options.channels_last and cell.device in XLA:
        return "channels_last=true: XLA lays out memory as it sees fit: use channels_last=false"
    if options.cuda_graphs and cell.device != Device.gpu:
        return f"cuda_graphs=true is for NVIDIA GPUs, {cell.device} has no CUDA graphs: use cuda_graphs=false"
    return None


def _flush_denormals(cell: Cell, report: DeviceReport) -> str | None:
    if not cell.options.flush_denormals:
        return None
    if cell.engine == Engine.keras:
        return "flush_denormals=true is not for Keras: use engine=lightning, or flush_denormals=false"
    if cell.device == Device.cpu:
        return None
    why = "XLA flushes denormal numbers by itself" if cell.device in XLA else f"a {cell.device} is not slowed by them"
    return f"flush_denormals=true: {why}: use flush_denormals=false"


def _allocator(cell: Cell) -> str | None:
    wanted = cell.options.allocator
    if wanted == Allocator.default:
        return None
    if cell.device not in SHARE_ONE_CPU:
        return f"allocator={wanted}: a {cell.device} computes in memory of its own: use allocator=default"
    return allocators.why_missing(wanted)


def _compiler(cell: Cell, report: DeviceReport) -> str | None:
    """Inductor generates C++ for the CPU, and Triton with launchers in C for a GPU; both include Python's headers."""
    if cell.engine == Engine.aotinductor:
        flag = "engine=aotinductor"
    elif cell.options.compile:
        flag = "compile=true"
    else:
        return None
    if cell.device == Device.gpu and _capability(report) < VOLTA:
        found = report.details.get("compute_capability", "an unknown one")
        return f"compile=true needs compute capability 7.0, {report.name} has {found}: use compile=false"
    language, variable, commands = ("C", "CC", C) if cell.device == Device.gpu else ("C++", "CXX", CXX)
    given = os.environ.get(variable)
    commands = [given] if given else commands
    if not any(map(shutil.which, commands)):
        problem = f"{variable}={given} is not found" if given else f"none of {', '.join(commands)} is found"
        return f"{flag} needs a {language} compiler, and {problem}: install one (on Debian, g++)"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return f"{flag} needs Python's headers: install them (on Debian, python3-dev)"
    return None


def _runs_fp16_lstm(cell: Cell, report: DeviceReport) -> bool:
    """Under fp16 autocast torch calls oneDNN's LSTM, which has fp16 for the forward pass only, with AVX512-FP16.

    Measured with torch 2.9.0 and ONEDNN_MAX_CPU_ISA at AVX2, AVX512_CORE_BF16 and AVX512_CORE_FP16.
    """
    return cell.mode == Mode.infer and has_any(report, ["avx512_fp16"])


def _no_tf32(device: Device) -> str:
    return f"tf32 needs an NVIDIA GPU, which {device} is not: use fp32"


def _capability(report: DeviceReport) -> tuple[int, int]:
    """The GPU's compute capability; (0, 0) if the driver does not report it, so that nothing is assumed."""
    major, _, minor = report.details.get("compute_capability", "0.0").partition(".")
    return int(major), int(minor)
