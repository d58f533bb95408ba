"""The Lightning engine: one cell -> one measurement, in the loop of Lightning's Trainer."""

import logging
import warnings
from pathlib import Path
from typing import Any

from lightning_utilities.core import rank_zero

from accelbench.engines.lightning.module_run import ModuleRun
from accelbench.engines.lightning.network_run import NetworkRun
from accelbench.engines.pytorch import engine
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Work
from accelbench.schema.vocab import Library


def hush_lightning() -> None:
    """Silences Lightning's warnings about what is intended here: predictions of None, training without validation.

    Its other ones stay warnings, whatever the user's code makes of warnings.
    """
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    rank_zero._warn = _warn


def _warn(message: str | Warning, stacklevel: int = 2, **kwargs: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for note in ("predict returned None", "You defined a `validation_step`"):
            warnings.filterwarnings("ignore", message=note)
        warnings.warn(message, stacklevel=stacklevel + 1, **kwargs)


def run(
    cell: Cell, data_folder: Path, weights: Path | None = None, work: Work | None = None, requests: Path | None = None
) -> Measurement | None:
    """Runs `cell` in this process, which must have run no other; see `pytorch.engine.run`."""
    hush_lightning()
    kind = ModuleRun if cell.model.library == Library.lightning else NetworkRun
    return engine.run(cell, data_folder, weights, work, requests, kind)


def check(cell: Cell, data_folder: Path) -> Work | None:
    """What `pytorch.engine.check` returns; None of a LightningModule, whose steps need a Trainer."""
    return None if cell.model.library == Library.lightning else engine.check(cell, data_folder)


count_step = engine.count_step
