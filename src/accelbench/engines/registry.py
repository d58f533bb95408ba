"""The processes that run an engine's cells: which module they run, and what they import and set before.

Each engine is a folder here, named by its word in `vocab.Engine`, whose `spec.py` has `host_spec(cell) -> HostSpec` and
imports no framework; those in `vocab.EXPORTING` share `exported/spec.py`. No other folder imports an engine's, so that
a cell depends only on the code of its engine and on the modules that all engines share.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accelbench.devices import allocators
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import EXPORTING

# Variables that override the precision, threads or backend that an engine sets in code: a cell's process has none.
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
    "PYTORCH_ENABLE_MPS_FALLBACK",
    "KERAS_FLOATX",
    "KERAS_BACKEND",
    "JAX_ENABLE_X64",
    "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_PLATFORMS",
}

UNFINISHED = "unfinished-"  # how the name of a folder begins while an engine exports a network to it


@dataclass(frozen=True)
class HostSpec:
    """A host: a process from which cells are forked.

    `exported_as` is equal for cells that can load the same exported network, which the engine's
    `export(cell, data_folder, folder)` writes in a process of its own; None if the engine exports none.
    """

    engine: str  # the module whose `run(cell, data_folder)` measures a cell
    preload: tuple[str, ...]  # the modules that it imports once, before any fork; none may start threads or use a GPU
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that are set before those imports
    num_processes: int = 1  # that run one cell: its ranks
    prober: str | None = None  # the module whose `run(device, precisions)` measures the device's ceilings
    exported_as: str | None = None
    python: str | None = None  # of the cell: another interpreter than accelbench's

    @property
    def key(self) -> tuple[object, ...]:
        """Cells with equal keys share a host."""
        return self.python, self.engine, self.preload, *sorted(self.environment.items())


def host_spec(cell: Cell) -> HostSpec:
    """The host that `cell` is forked from, as its engine's `spec.py` describes it, with the cell's allocator."""
    folder = "exported" if cell.engine in EXPORTING else cell.engine
    spec: HostSpec = importlib.import_module(f"accelbench.engines.{folder}.spec").host_spec(cell)
    environment = {**spec.environment, **allocators.environment(cell.options.allocator)}
    return replace(spec, environment=environment, num_processes=cell.num_processes, python=cell.python)
