"""Whether a cell is supported on this machine, and the reason if it is not.

Each function yields the reasons of one kind, of which the first is told.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from accelbench.devices import allocators, interpreters, packages
from accelbench.devices.cpu import has_any
from accelbench.devices.registry import DeviceReport
from accelbench.devices.tpu import TORCH_TPU
from accelbench.engines import images
from accelbench.errors import how_to_install
from accelbench.schema import vocab
from accelbench.schema.cell import ACCURACY, Cell, KerasSettings
from accelbench.schema.workload import SHAPES

BF16 = frozenset({vocab.Precision.bf16, vocab.Precision.bf16_mixed})
# Compute capabilities.
VOLTA = (7, 0)  # the first that Triton compiles for
AMPERE = (8, 0)  # the first with TF32 and bfloat16 units

# The compilers that inductor and Triton look for if CXX and CC are not set.
CXX = ["clang++" if sys.platform == "darwin" else "g++"]
C = ["clang", "gcc"]

# The modules that each engine needs besides torch; of those that run an exported network, the modules to quantise, the
# formats, and the options.
MODULES = {
    vocab.Engine.lightning: ("pytorch_lightning",),
    vocab.Engine.onnxruntime: ("onnxruntime", "onnx", "onnxscript"),
    vocab.Engine.openvino: ("openvino",),
    vocab.Engine.aotinductor: (),
}
QUANTIZERS = {vocab.Engine.onnxruntime: (), vocab.Engine.openvino: ("nncf",)}
PRECISIONS = {
    vocab.Engine.onnxruntime: (vocab.Precision.fp32, vocab.Precision.int8),
    vocab.Engine.openvino: (vocab.Precision.fp32, vocab.Precision.bf16, vocab.Precision.fp16, vocab.Precision.int8),
    vocab.Engine.aotinductor: (vocab.Precision.fp32, vocab.Precision.bf16, vocab.Precision.fp16, vocab.Precision.fp64),
}
OPTIONS = {vocab.Engine.aotinductor: ("channels_last", "freeze")}
# The devices on which everything was tried. Others run one network at a time, on one of them.
TRIED = (vocab.Device.cpu, vocab.Device.gpu)
LIBRARIES = (vocab.Library.timm, vocab.Library.torchvision, vocab.Library.transformers)  # that have networks
# The instruction sets, any of which OpenVINO needs to compute in a format.
NEEDED = {vocab.Precision.bf16: ("avx512_bf16", "amx_bf16"), vocab.Precision.fp16: ("avx512_fp16", "amx_fp16")}


def why_not(cell: Cell, report: DeviceReport) -> str | None:
    """Why `cell` can't run, or can't give a true number, on the device that `report` describes.

    It is one line, which names an alternative if there is one; None if the cell is supported.
    """
    return next(_reasons(cell, report), None)


def why_unfit(cell: Cell, shape: images.Shape | None = None, num_train: int | None = None) -> str | None:
    """Why the cell's network does not take the images of its data, with what mends it; None if it does."""
    # `shape` is a prepared set's, None: the set's by default; `num_train`: how many it has to train with, if known.
    data, asked = cell.data.name, cell.data.train_images
    if asked is not None and num_train is not None and asked > num_train:
        return f"data.train_images={asked}: {data} has {num_train} to train with here: ask for at most as many"
    known = cell.model.input_shape if data == vocab.RANDOM else shape or SHAPES.get(data)
    return None if known is None else images.why_unfit(cell.model, known, data)


def _of_interpreter(cell: Cell, python: str) -> Iterator[str]:
    found, versions = interpreters.look(python), interpreters.PYTHONS
    if not versions[0] <= _release(found.version) < versions[1]:
        least, below = (".".join(map(str, each)) for each in versions)
        yield f"python={python}: it is Python {found.version}, and accelbench runs on {least} to below {below}"
    elif missing := [packages.DISTRIBUTIONS[name] for name in _needed(cell) if name not in found.modules]:
        install = f"{interpreters.executable(python)} -m pip install {' '.join(missing)}"
        yield f"python={python}: {', '.join(missing)} not installed there: {install}"
    elif (torch := found.versions.get("torch")) and "torch" in _needed(cell) and _release(torch) < interpreters.TORCH:
        least = ".".join(map(str, interpreters.TORCH))
        yield f"python={python}: it has torch {torch}, and accelbench needs {least} or newer"
    if cell.device not in TRIED:
        yield f"python={python}: {cell.device} is looked for in accelbench's own environment alone: leave python= out"


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def _needed(cell: Cell) -> dict[str, None]:
    """The modules that the process of a cell imports."""
    if cell.keras:
        found = ["jax" if cell.keras.backend == vocab.KerasBackend.jax else "tensorflow", "keras"]
    else:
        found = ["torch", *MODULES.get(cell.engine, ())]
    found += QUANTIZERS.get(cell.engine, ()) if cell.precision in vocab.QUANTIZED else ()
    found += [cell.model.library.value] if cell.model.library in LIBRARIES else []
    found += ["torchvision"] if cell.data.pipeline == vocab.Pipeline.jpeg else []
    by_loadgen = cell.protocol in vocab.SERVING and cell.server.generator == vocab.Generator.loadgen
    found += ["mlperf_loadgen"] if by_loadgen else []
    return dict.fromkeys(["msgspec", "numpy", "pynvml", *found])


def _lacks(cell: Cell, module: str) -> bool:
    return cell.python is None and packages.folder(module) is None  # of another interpreter, `_of_interpreter` says it


def _reasons(cell: Cell, report: DeviceReport) -> Iterator[str]:
    if cell.python is not None:
        yield from _of_interpreter(cell, cell.python)
    if cell.precision in vocab.QUANTIZED and cell.engine not in QUANTIZERS:
        engines = " or ".join(f"engine={word}" for word in QUANTIZERS)
        yield f"engine={cell.engine} does not quantise networks: for {cell.precision} use {engines}"
    if cell.keras is not None:
        yield from _of_keras(cell, cell.keras)
    if cell.engine in vocab.EXPORTING:
        yield from _of_exported(cell, report)
    if (allocator := cell.options.allocator) != vocab.Allocator.default:
        if cell.device not in vocab.SHARE_ONE_CPU:
            yield f"allocator={allocator}: a {cell.device} computes in memory of its own: use allocator=default"
        elif missing := allocators.why_missing(allocator):
            yield missing
    backend, tpu = (cell.keras.backend, cell.keras.tpu) if cell.keras else (None, KerasSettings.tpu)
    # Of this machine:
    if cell.device != vocab.Device.tpu or backend != vocab.KerasBackend.tensorflow or tpu == KerasSettings.tpu:
        if not report.present:
            yield str(report.reason)
        yield from _of_devices(cell, report)
    others = (_of_options, _of_compiler, _of_serving, _of_generation)
    for rules in (_of_torch, _of_network, _of_target, _of_copies, _of_precision, *others):
        yield from rules(cell, report)


def _of_keras(cell: Cell, keras: KerasSettings) -> Iterator[str]:
    on_jax, options, num = keras.backend == vocab.KerasBackend.jax, cell.options.of_network, keras.steps_per_execution
    if cell.device == vocab.Device.xla_cpu:
        yield "xla_cpu is torch_xla's: use device=cpu engine.jit_compile=true to have XLA compile for the CPU"
    if cell.device in (vocab.Device.xpu, vocab.Device.mps):
        yield f"engine=keras does not run on {cell.device} here: use engine=pytorch, or device=cpu"
    for name in ("jax" if on_jax else "tensorflow", "keras"):
        if _lacks(cell, name):
            how = how_to_install("jax" if on_jax else "keras")
            yield f"engine=keras engine.backend={keras.backend}: {name} is not installed: {how}"
    if on_jax and not keras.jit_compile:
        yield "engine.jit_compile=false: Keras on JAX would run operator by operator: use engine.jit_compile=true"
    if on_jax and cell.devices > 1:
        yield f"devices={cell.devices}: several devices are tf.distribute's: use engine.backend=tensorflow"
    if on_jax and cell.threads is not None:
        yield f"threads={cell.threads}: JAX takes no limit on its threads"
    if cell.model.library != vocab.Library.accelbench:
        yield f"engine=keras has accelbench's own networks, none of {cell.model.library}: use engine=pytorch"
    if cell.model.weights_file is not None:
        name = f"*{Path(cell.model.weights_file).suffix}"
        yield f"model.weights={name}: Keras' cells draw their weights: use engine=pytorch, or model.weights=none"
    if cell.save_weights:
        yield "save_weights=true: Keras' cells keep no weights: use engine=pytorch, or save_weights=false"
    if options:
        yield f"{options[0]}=true is an option of PyTorch's cells: use engine=pytorch, or engine.jit_compile"
    if cell.data.pipeline == vocab.Pipeline.jpeg:
        yield "data.pipeline=jpeg: Keras' cells read decoded arrays: use data.pipeline=array, or engine=pytorch"
    if cell.data.augment != vocab.Augment.none:
        yield f"data.augment={cell.data.augment}: use data.augment=none, or engine=pytorch"
    if num > 1 and on_jax:
        yield f"engine.steps_per_execution={num}: Keras on JAX calls the compiled function for each step: use 1"
    if num > 1 and cell.data.pipeline == vocab.Pipeline.device and cell.mode == vocab.Mode.train:
        instead = "use data.pipeline=host, or engine.steps_per_execution=1"
        yield f"engine.steps_per_execution={num}: training, TensorFlow fetches each batch itself: {instead}"
    if num > 1 and cell.devices > 1:
        yield f"engine.steps_per_execution={num}: TensorFlow can't run them on several devices: use 1"


def _of_exported(cell: Cell, report: DeviceReport) -> Iterator[str]:
    engine, precision, instead = cell.engine, cell.precision, "or engine=pytorch"
    quantizers = QUANTIZERS.get(engine, ()) if precision in vocab.QUANTIZED else ()
    for missing in (name for name in (*MODULES[engine], *quantizers) if _lacks(cell, name)):
        where = f"engine={engine} precision={precision}" if missing in quantizers else f"engine={engine}"
        yield f"{where}: {missing} is not installed: {how_to_install(engine)}"
    if cell.device != vocab.Device.cpu:
        yield f"engine={engine} runs on the CPU here: use device=cpu, {instead}"
    if cell.mode == vocab.Mode.generate:
        yield f"engine={engine}: an exported network keeps no key-value cache: for mode=generate use engine=pytorch"
    elif cell.mode != vocab.Mode.infer:
        yield f"engine={engine} runs inference: use mode=infer, {instead}"
    if cell.devices > 1:
        yield f"engine={engine} runs on one device: use devices=1, {instead}"
    if precision not in PRECISIONS[engine]:
        yield f"engine={engine} has no {precision} on the CPU: use {' or '.join(PRECISIONS[engine])}"
    needed = NEEDED.get(precision, ()) if engine == vocab.Engine.openvino else ()
    if needed and not has_any(report, needed):
        yield f"OpenVINO computes in {precision} with {' or '.join(needed)}, which this CPU lacks: use fp32"
    for name in cell.options.of_network:
        if name not in OPTIONS.get(engine, ()):
            own = engine == vocab.Engine.aotinductor
            why = "compiles the network itself" if own else "chooses layouts and constants itself"
            yield f"{name}=true: {engine} {why}: use {name}=false"
    if cell.model.library == vocab.Library.lightning:
        yield f"model=lightning: Lightning runs its modules: use engine=lightning, or model=custom for {engine}"


def _of_devices(cell: Cell, report: DeviceReport) -> Iterator[str]:
    cores = report.details.get("usable_cores")  # several devices of a CPU share its cores
    if cell.devices > 1 and cell.devices > int(cores or report.count):
        yield f"devices={cell.devices}: there are {f'{cores} cores' if cores else f'{report.count} of {cell.device}'}"
    if cell.devices > 1 and cell.device not in TRIED and not _is_fused(cell, report):
        yield f"devices={cell.devices}: not tried on {cell.device}: use devices=1"
    if cell.devices > 1 and cell.options.cuda_graphs and cell.mode == vocab.Mode.train:
        yield f"cuda_graphs=true: gradients are averaged between the graphs of devices={cell.devices}: use devices=1"


def _is_fused(cell: Cell, report: DeviceReport) -> bool:
    """Whether XLA runs a recorded step as a whole: torch_tpu launches one operator after the other."""
    return cell.device in vocab.XLA and (cell.keras is not None or TORCH_TPU not in report.details)


def _of_torch(cell: Cell, report: DeviceReport) -> Iterator[str]:
    # PyTorch is missing in the environments of Keras on a GPU and of JAX on a TPU.
    by_xla = cell.device == vocab.Device.tpu and _is_fused(cell, report)
    modules = ["torch", *MODULES.get(cell.engine, ()), *(["torch_xla"] if by_xla else [])]
    missing = [name for name in modules if _lacks(cell, name)] if cell.engine in vocab.ON_TORCH else []
    if missing == ["torch_xla"]:
        how = how_to_install("xla")
        yield f"device={cell.device}: torch_xla is not installed: {how}, or use engine=keras"
    elif missing:
        yield f"engine={cell.engine}: {missing[0]} is missing in this environment: use one that has it, or engine=keras"
    is_module = cell.model.library == vocab.Library.lightning
    if cell.engine == vocab.Engine.pytorch and is_module:
        yield "model=lightning: its training_step runs in Lightning's loop: use engine=lightning"
    if not is_module:
        yield from _of_lightnings_loop(cell)
        return
    if cell.device not in TRIED:
        yield f"model=lightning: its loop is not measured on {cell.device}: use device=cpu or device=gpu"
    if cell.devices > 1:
        yield "model=lightning: its loop is measured on one device: use devices=1"
    if cell.protocol == vocab.Protocol.fit:
        yield "model=lightning: protocol=fit evaluates on a test set of accelbench's: use protocol=target or window"
    if changes := cell.options.of_network:
        yield f"model=lightning: its network is run as the module made it: use {changes[0]}=false"


def _of_lightnings_loop(cell: Cell) -> Iterator[str]:
    """What Lightning's loop does not do with other networks than its own."""
    if cell.engine != vocab.Engine.lightning:
        return
    if cell.protocol in vocab.SERVING:
        yield f"engine=lightning: its loop serves no requests: for {cell.protocol} use engine=pytorch"
    if cell.mode == vocab.Mode.generate:
        yield "engine=lightning: its loop generates no tokens: for mode=generate use engine=pytorch"
    if cell.device in vocab.XLA and cell.devices > 1:
        yield f"engine=lightning: its loop runs on one {cell.device} here: use devices=1, or engine=pytorch"


def _of_network(cell: Cell, report: DeviceReport) -> Iterator[str]:
    if unfit := why_unfit(cell):
        yield unfit
    name = cell.model.library.value
    if cell.model.library in (vocab.Library.timm, vocab.Library.transformers) and _lacks(cell, name):
        yield f"model={name}: {name} is not installed: {how_to_install(name)}"
    if cell.model.output == vocab.ModelOutput.any and cell.mode == vocab.Mode.train and not cell.model.loss:
        yield "model.output=any: the built-in loss needs logits: use model.loss, mode=infer or model.output=logits"
    if cell.model.loss and cell.protocol == vocab.Protocol.fit:
        yield "model.loss: protocol=fit evaluates with the built-in loss alone: use protocol=window, steps or target"
    if cell.batch_size % cell.devices:
        yield f"batch_size={cell.batch_size} does not divide among {cell.devices} devices: choose a multiple"


def _of_target(cell: Cell, report: DeviceReport) -> Iterator[str]:
    has_none = cell.model.is_own("autoencoder") or cell.model.output == vocab.ModelOutput.any
    is_own = cell.model.library == vocab.Library.lightning  # which logs what it likes
    if cell.protocol == vocab.Protocol.target and cell.target.metric == ACCURACY and has_none and not is_own:
        yield f"target.metric=accuracy: model={cell.model.name} does not classify: use target.metric=loss"


def _of_copies(cell: Cell, report: DeviceReport) -> Iterator[str]:
    copies = cell.data.pipeline != vocab.Pipeline.device and cell.protocol not in vocab.SERVING
    is_copied = copies and cell.device == vocab.Device.gpu and cell.engine in vocab.ON_TORCH
    if not cell.data.pinned and not is_copied:
        yield "data.pinned=false: goes with device=gpu engine=pytorch and whole batches of the host: leave it out"


def _of_precision(cell: Cell, report: DeviceReport) -> Iterator[str]:
    device, precision, is_lstm = cell.device, cell.precision, cell.model.is_own("lstm")
    is_on_torch, is_mixed = cell.engine in vocab.ON_TORCH, precision == vocab.Precision.fp16_mixed
    if precision == vocab.Precision.tf32 and device != vocab.Device.gpu:
        yield f"tf32 needs an NVIDIA GPU, which {device} is not: use fp32"
    if cell.xla_processes and device == vocab.Device.xla_cpu:
        yield "engine.xla_processes=true: PJRT joins no processes on CPUs (pytorch/xla#5342): use false"
    if device == vocab.Device.mps and precision == vocab.Precision.fp64:
        yield "fp64: an Apple GPU has none: use fp32"
    if is_on_torch and is_mixed and cell.mode == vocab.Mode.train and _is_fused(cell, report):
        yield "fp16_mixed: training scales its losses, which torch_xla does not: use bf16_mixed"
    needs_ampere = precision in BF16 or precision == vocab.Precision.tf32
    if device == vocab.Device.gpu and needs_ampere and _capability(report) < AMPERE:
        found = report.details.get("compute_capability", "an unknown one")
        instead = "fp16_mixed" if precision == vocab.Precision.bf16_mixed else "fp32"
        yield f"{precision} needs compute capability 8.0, {report.name} has {found}: use {instead}"
    # Under fp16 autocast torch calls oneDNN's LSTM, which has fp16 for the forward pass only, with AVX512-FP16.
    # Measured with torch 2.9.0 and ONEDNN_MAX_CPU_ISA at AVX2, AVX512_CORE_BF16 and AVX512_CORE_FP16.
    of_onednn = device == vocab.Device.cpu and is_on_torch and is_lstm
    has_fp16 = cell.mode == vocab.Mode.infer and has_any(report, ["avx512_fp16"])
    if of_onednn and is_mixed and not has_fp16:
        yield f"oneDNN has no fp16 LSTM to {cell.mode} with on this CPU: use bf16_mixed"
    # PyTorch's default epsilon, 1e-8, is below the smallest fp16 number, 6e-8, and so are the squared gradients.
    uses_adam = (precision, cell.mode, cell.model.optimizer) == (vocab.Precision.fp16, vocab.Mode.train, "adam")
    if uses_adam and cell.model.library != vocab.Library.lightning:  # whose own optimiser runs
        instead = "bf16_mixed" if device in vocab.XLA or (device == vocab.Device.cpu and is_lstm) else "fp16_mixed"
        yield f"Adam's epsilon underflows in fp16 and the weights turn non-finite: use {instead}"


def _of_options(cell: Cell, report: DeviceReport) -> Iterator[str]:
    options, device, is_xla = cell.options, cell.device, _is_fused(cell, report)
    if options.freeze and cell.mode == vocab.Mode.train:
        yield "freeze=true makes the weights constants, and training changes them: use mode=infer"
    if options.compile and is_xla:
        yield "compile=true: XLA compiles every network anyway: use compile=false"
    if options.channels_last and is_xla:
        yield "channels_last=true: XLA lays out memory as it sees fit: use channels_last=false"
    if options.cuda_graphs and device != vocab.Device.gpu:
        yield f"cuda_graphs=true is for NVIDIA GPUs, {device} has no CUDA graphs: use cuda_graphs=false"
    if options.flush_denormals and cell.engine == vocab.Engine.keras:
        yield "flush_denormals=true is not for Keras: use engine=pytorch, or flush_denormals=false"
    if options.flush_denormals and device != vocab.Device.cpu:
        why = "XLA flushes denormal numbers by itself" if is_xla else f"a {device} is not slowed by them"
        yield f"flush_denormals=true: {why}: use flush_denormals=false"


def _of_compiler(cell: Cell, report: DeviceReport) -> Iterator[str]:
    """Inductor generates C++ for the CPU, and Triton with launchers in C for a GPU."""
    if cell.engine != vocab.Engine.aotinductor and not cell.options.compile:
        return
    flag = "engine=aotinductor" if cell.engine == vocab.Engine.aotinductor else "compile=true"
    if cell.device == vocab.Device.gpu and _capability(report) < VOLTA:
        found = report.details.get("compute_capability", "an unknown one")
        yield f"compile=true needs compute capability 7.0, {report.name} has {found}: use compile=false"
    variable, commands = ("CC", C) if cell.device == vocab.Device.gpu else ("CXX", CXX)
    given = os.environ.get(variable)
    if not any(map(shutil.which, [given] if given else commands)):
        missing = f"{variable}={given}" if given else " or ".join(commands)
        yield f"{flag} needs a compiler, and {missing} is not found: install one (on Debian, g++)"


def _of_serving(cell: Cell, report: DeviceReport) -> Iterator[str]:
    protocol, workers = f"protocol={cell.protocol}", cell.server.workers
    if cell.protocol not in vocab.SERVING:
        return
    if cell.server.generator == vocab.Generator.loadgen and _lacks(cell, "mlperf_loadgen"):
        yield f"server.generator=loadgen: it is not installed: {how_to_install('loadgen')}, or use own"
    if cell.devices > 1:
        yield f"devices={cell.devices}: {protocol} serves requests on one device: use devices=1"
    if cell.model.library == vocab.Library.lightning:
        yield f"model=lightning: its loop serves no requests: use model=custom for {protocol}"
    if cell.keras and cell.keras.steps_per_execution > 1:
        yield f"engine.steps_per_execution={cell.keras.steps_per_execution}: {protocol} computes each batch: use 1"
    if cell.data.pipeline == vocab.Pipeline.device:
        yield f"data.pipeline=device: requests of {protocol} come from host memory: use data.pipeline=host"
    alone = [f"{name}=true" for name in ("compile", "cuda_graphs") if getattr(cell.options, name)]
    alone += [f"device={cell.device}"] * (cell.device not in TRIED)
    alone += ["engine=keras"] * (cell.engine == vocab.Engine.keras)
    if workers > 1 and alone:
        yield f"server.workers={workers}: {alone[0]} runs one instance of the network: use server.workers=1"


def _of_generation(cell: Cell, report: DeviceReport) -> Iterator[str]:
    if cell.mode != vocab.Mode.generate:
        return
    if _is_fused(cell, report):
        yield f"mode=generate: XLA would compile for each length of the cache: on {cell.device} use mode=infer"
    if cell.devices > 1:
        yield f"devices={cell.devices}: mode=generate runs on one device: use devices=1"
    for name in ("cuda_graphs", "freeze"):
        if getattr(cell.options, name):
            yield f"{name}=true: not tried with a key-value cache: for mode=generate use {name}=false"


def _capability(report: DeviceReport) -> tuple[int, int]:
    """The GPU's compute capability; (0, 0) if the driver does not report it, so that nothing is assumed."""
    major, _, minor = report.details.get("compute_capability", "0.0").partition(".")
    return int(major), int(minor)
