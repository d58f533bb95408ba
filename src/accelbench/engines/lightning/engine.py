"""The Lightning engine: measures one cell in the loop of Lightning's Trainer."""

from pathlib import Path

from accelbench.engines.lightning.module_run import ModuleRun
from accelbench.engines.lightning.trainer_run import NetworkRun
from accelbench.engines.pytorch import engine
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Work
from accelbench.schema.vocab import Library


def run(
    cell: Cell, data_folder: Path, weights: Path | None = None, work: Work | None = None, requests: Path | None = None
) -> Measurement | None:
    """Runs `cell` in this process. The process must not have run another cell. See `pytorch.engine.run`."""
    kind = ModuleRun if cell.model.library == Library.lightning else NetworkRun
    return engine.run(cell, data_folder, weights, work, requests, kind)


def check(cell: Cell, data_folder: Path) -> None:
    """Checks the network as `pytorch.engine.check` does. Does not check a LightningModule, which needs a Trainer."""
    if cell.model.library != Library.lightning:
        engine.check(cell, data_folder)
