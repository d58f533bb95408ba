"""Which module runs which engine, and what its processes need before they start."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device, Engine, Library

MODULES: Mapping[Engine, str] = {
    Engine.lightning: "accelbench.engines.lightning.engine",
    Engine.keras: "accelbench.engines.keras.engine",
}
PROBERS: Mapping[Engine, str] = {Engine.lightning: "accelbench.engines.lightning.probe"}


# Variables by which a library computes in another precision, or with other threads, than it is told to in code.
SUBSTITUTING = {
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_DEFAULT_FPMATH_MODE",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "XLA_USE_BF16",
    "XLA_USE_F16",
    "XLA_DOWNCAST_BF16",
    "XLA_DOWNCAST_FP16",
    "TF_XLA_FLAGS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "KERAS_FLOATX",
    "KERAS_BACKEND",
    "TF_CPP_MIN_LOG_LEVEL",
    "JAX_ENABLE_X64",
    "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_PLATFORMS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
}


@dataclass(frozen=True)
class HostSpec:
    """A process from which cells are forked.

    Attributes:
        engine: the module whose `run(cell, data_folder)` measures.
        preload: modules imported once, before any fork. None may start threads or touch a GPU.
        environment: variables that must be set before those imports.
        num_processes: of one cell: its ranks.
        prober: the module whose `run(device)` finds the device's ceilings; None where none does.
    """

    engine: str
    preload: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    num_processes: int = 1
    prober: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Cells of equal keys share a host."""
        return self.engine, self.preload, *sorted(self.environment.items())


def host_spec(cell: Cell) -> HostSpec:
    """The host that `cell` is forked from."""
    spec = _keras_spec(cell) if cell.keras else _host_spec(cell)
    return replace(spec, prober=PROBERS.get(cell.engine), num_processes=cell.num_processes)


def _keras_spec(cell: Cell) -> HostSpec:
    assert cell.keras is not None
    environment = {"KERAS_BACKEND": cell.keras.backend.value, "TF_CPP_MIN_LOG_LEVEL": "2"}
    if cell.device == Device.cpu:  # both look for GPUs, and say what they miss
        environment |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    if cell.device == Device.gpu:
        # Both would take all of the memory at once, and what a cell needs could not be seen.
        growing = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        environment |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **growing}
    module = MODULES[cell.engine]
    return HostSpec(module, ("accelbench.isolation.host", module), environment)


def _host_spec(cell: Cell) -> HostSpec:
    module = MODULES[cell.engine]
    preload: tuple[str, ...] = ("accelbench.isolation.host", module)
    if cell.model.library == Library.timm:
        preload = (*preload, "timm")
    if cell.device == Device.xla_cpu:
        num = cell.devices // cell.num_processes  # of each process
        # torch_xla may be imported here since none of this host's cells uses plain torch.
        return HostSpec(module, (*preload, "torch_xla"), {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(num)})
    if cell.device == Device.gpu:
        # As NVML numbers them, so that what is sampled is what computes.
        return HostSpec(module, preload, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    if cell.device == Device.tpu:
        return HostSpec(module, preload, {"PJRT_DEVICE": "TPU"})
    return HostSpec(module, preload)
