"""Describes the host process of a cell: the engine's module, the modules to preload, and the environment variables.

Each engine has a folder beside this file. The folder has the engine's name in `vocab.Engine`. Its `spec.py` defines
`host_spec(cell) -> HostSpec`, and imports no framework. The engines in `vocab.EXPORTING` share `exported/spec.py`.

The modules directly in this folder do not import an engine's folder. Therefore a cell uses only its engine's folder
and the folders that this folder imports. For example, Lightning's folder imports PyTorch's.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accelbench.devices import allocators
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import EXPORTING

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
    preload: tuple[str, ...]  # modules that the host imports once, before any fork; they start no threads, use no GPU
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that are set before those imports
    prober: str | None = None  # the module whose `run(device, precisions)` measures the device's ceilings
    exported_as: str | None = None
    python: str | None = None  # the cell's interpreter, if it is not accelbench's

    @property
    def key(self) -> tuple[object, ...]:
        """Cells with equal keys share a host."""
        return self.python, self.engine, self.preload, *sorted(self.environment.items())


def host_spec(cell: Cell) -> HostSpec:
    """Returns the description of the host process for `cell`, with the environment variables of its allocator."""
    folder = "exported" if cell.engine in EXPORTING else cell.engine
    spec: HostSpec = importlib.import_module(f"accelbench.engines.{folder}.spec").host_spec(cell)
    environment = {**spec.environment, **allocators.environment(cell.options.allocator)}
    return replace(spec, environment=environment, python=cell.python)
