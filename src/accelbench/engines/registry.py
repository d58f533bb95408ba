"""Describes the host process of a cell: the engine's module, the modules to preload, and the environment variables.

Each engine has a folder beside this file. The folder has the engine's name in `cell.Engine`. The engines in
`cell.EXPORTING` share the folder `exported`. This file imports no framework.

The modules directly in this folder do not import an engine's folder. Therefore a cell uses only its engine's folder
and the folders that this folder imports. For example, Lightning's folder imports PyTorch's.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from accelbench.devices import allocators
from accelbench.devices.gpu import IN_ORDER
from accelbench.schema.cell import EXPORTING, ON_TORCH, Cell, Device, Engine, Library, Mode

SUPERVISOR = "accelbench.isolation.supervisor"
LIGHT_IMPORT = "accelbench.engines.lightning.light_import"
NOTE_MALLOC = "accelbench.engines.note_malloc"
# Otherwise, torch imports it at an optimiser's first step, which takes a second.
OF_OPTIMIZERS = "torch._dynamo"
# Packages whose imports take seconds. A host imports them once, if its cells need them.
SLOW = ("pytorch_lightning", "timm", "torchvision", "transformers")
# Settings that affect only the measurement, not the exported network.
OF_MEASUREMENT = ("repeat", "epochs", "warmup", "steps", "window", "server", "breakdown_s", "budget_s")
# Variables that override an engine's precision, threads or backend. They are removed from the process of a cell.
SUBSTITUTING = {
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_DEFAULT_FPMATH_MODE",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "XLA_USE_BF16",
    "XLA_USE_F16",
    "XLA_DOWNCAST_BF16",
    "XLA_DOWNCAST_FP16",
    "TF_XLA_FLAGS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_CPP_MIN_LOG_LEVEL",
    "KERAS_FLOATX",
    "KERAS_BACKEND",
}

UNFINISHED = "unfinished-"  # prefix of a folder's name while an engine exports a network to the folder


@dataclass(frozen=True)
class HostSpec:
    """The description of a host process, which forks the processes of cells.

    Cells with equal `exported_as` can load the same exported network. The engine's function
    `export(cell, data_folder, folder)` writes this network in a separate process. `exported_as` is None if the engine
    exports no networks.
    """

    engine: str  # the module whose `run(cell, data_folder)` measures a cell
    # modules that the host imports once, before any fork; they start no threads, use no GPU, and may be missing
    preload: tuple[str, ...]
    # Variables that are set before those imports.
    environment: Mapping[str, str] = field(default_factory=dict)
    exported_as: str | None = None
    python: str | None = None  # the cell's interpreter, if it is not accelbench's

    @property
    def key(self) -> tuple[object, ...]:
        """Cells with equal keys share a host."""
        return self.python, self.engine, self.preload, *sorted(self.environment.items())


def host_spec(cell: Cell) -> HostSpec:
    """Returns the description of the host process for `cell`."""
    is_exported = cell.engine in EXPORTING
    engine = f"accelbench.engines.{'exported' if is_exported else cell.engine}.engine"
    preload: tuple[str, ...] = (SUPERVISOR, engine)
    environment = dict(allocators.environment(cell.options.allocator))
    exported_as = None
    if cell.device == Device.gpu:
        environment |= IN_ORDER
    if cell.engine == Engine.keras:
        environment |= _environment_of_tensorflow(cell)
    if is_exported or cell.engine in ON_TORCH:
        preload = _modules_with_torch(cell, engine)
        environment |= _environment_of_torch(cell)
    if is_exported:
        # the compiler's module first: it disables OpenVINO's telemetry, which would start a thread
        preload = (*preload, f"accelbench.engines.exported.{cell.engine}")
        if cell.engine == Engine.openvino:
            preload = (*preload, "openvino")
        # The key has `threads` and the instances that divide them: AOTInductor's code has a fixed number of threads.
        exported_as = f"{cell.key_without(OF_MEASUREMENT)} {cell.num_instances}"
    return HostSpec(engine, preload, environment, exported_as, cell.python)


def _environment_of_tensorflow(cell: Cell) -> dict[str, str]:
    environment = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}
    if cell.device == Device.cpu:
        environment["CUDA_VISIBLE_DEVICES"] = ""  # otherwise TensorFlow searches for GPUs and logs errors
    if cell.device == Device.gpu:
        # By default, TensorFlow allocates all memory of the GPU at once, so the peak memory would be unknown.
        environment["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    return environment


def _modules_with_torch(cell: Cell, engine: str) -> tuple[str, ...]:
    of_lightning = (LIGHT_IMPORT, "pytorch_lightning") if cell.engine == Engine.lightning else ()
    preload = ["torch", *of_lightning, NOTE_MALLOC, SUPERVISOR, engine]
    if cell.mode == Mode.train or cell.options.compile:
        preload.append(OF_OPTIMIZERS)
    text = ""  # of the source files of the user's code, which are not imported
    for path in cell.own_code.values():
        with suppress(OSError):
            text += Path(path.rpartition(".")[0].replace(".", "/") + ".py").read_text(errors="replace")
    preload += [name for name in SLOW if name in text or name == cell.model.library]
    if cell.device == Device.xla_cpu:
        # Importing torch_xla replaces parts of torch.nn. No cell of this host uses plain torch, so torch_xla may be
        # preloaded.
        preload.append("torch_xla")
    return tuple(preload)


def _environment_of_torch(cell: Cell) -> dict[str, str]:
    environment = {}
    if cell.model.library == Library.transformers:
        environment["HF_HUB_OFFLINE"] = "1"  # networks are built only from their configuration
    if cell.device == Device.tpu:
        environment["PJRT_DEVICE"] = "TPU"
    elif cell.device == Device.xla_cpu:
        environment["PJRT_DEVICE"] = "CPU"
        environment["CPU_NUM_DEVICES"] = str(cell.devices // cell.num_processes)
    return environment
