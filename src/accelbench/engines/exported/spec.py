"""Describes the host process for cells whose engine runs an exported PyTorch network.

A host process imports a framework. It then forks one process for each cell.
"""

from dataclasses import replace

from accelbench.engines.pytorch import spec as of_torch
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import SERVING, Engine

ENGINE = "accelbench.engines.exported.engine"
# Modules with slow imports that start no threads. Modules that are not installed are ignored.
PRELOADED = {Engine.openvino: ("openvino",)}
# Settings that affect only the measurement, not the exported network.
OF_MEASUREMENT = ("repeat", "epochs", "warmup", "steps", "window", "server", "breakdown_s", "budget_s")


def serves_any_size(cell: Cell) -> bool:
    """Is true if the exported network must accept every batch size. An export for each size would take too long."""
    return cell.protocol in SERVING and cell.batch_size > 1


def host_spec(cell: Cell) -> HostSpec:
    """Describes the host process for `cell`.

    It is like the host process of the PyTorch engine, but it runs another engine and imports more modules.
    """
    base = of_torch.host_spec(cell)
    # The key has `threads` and the instances that divide them: AOTInductor's code has a fixed number of threads.
    exported_as = f"{cell.key_without(OF_MEASUREMENT)} {cell.num_instances}"
    compiler = f"accelbench.engines.exported.{cell.engine}"
    preload = (*base.preload, ENGINE, compiler, *PRELOADED.get(cell.engine, ()))
    return replace(base, engine=ENGINE, preload=preload, exported_as=exported_as)
