"""The Lightning engine: one cell -> one measurement, in the loop of Lightning's Trainer."""

from pathlib import Path

from accelbench.engines.lightning.module_run import ModuleRun, ModuleTargetRun
from accelbench.engines.lightning.trainer import hush_lightning
from accelbench.engines.pytorch.backends import backend_for
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Work
from accelbench.schema.vocab import Protocol


def run(
    cell: Cell, data_folder: Path, weights: Path | None = None, work: Work | None = None, requests: Path | None = None
) -> Measurement | None:
    """Runs `cell`, whose device must be present, in this process, which must have run no other cell."""
    hush_lightning()
    backend = backend_for(cell.device)
    backend.begin(cell)
    kind = ModuleTargetRun if cell.protocol == Protocol.target else ModuleRun
    return kind(cell, data_folder, backend).measure()
