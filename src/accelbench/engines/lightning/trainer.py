"""Lightning's Trainer for a cell, and the settings of the process that it runs in."""

import logging
import os
import warnings

import pytorch_lightning as pl

from accelbench.devices.cpu import usable_cores
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.global_state import use_threads
from accelbench.engines.lightning.precision import plugin_for
from accelbench.engines.lightning.ranks import Ranks
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device, Protocol


def hush_lightning() -> None:
    """Silences Lightning's warnings about what is intended here: predictions of None, training without validation."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for note in ("predict returned None", "You defined a `validation_step`"):
        warnings.filterwarnings("ignore", message=note)


def set_threads(cell: Cell, backend: Backend, num_ranks: int) -> None:
    """Sets the number of CPU threads: as asked for, else one per core, divided among the ranks. XLA takes no limit."""
    if backend.torch_type == "xla":
        if cell.threads is not None:
            raise UnsupportedError(f"threads={cell.threads}: XLA takes no limit on its threads")
        if cell.device == Device.xla_cpu:
            use_threads(1)  # torch only gathers batches: more threads would take cores from XLA
        return
    num = max(1, usable_cores() // num_ranks) if cell.threads is None else cell.threads
    if num_ranks > 1:
        os.environ["OMP_NUM_THREADS"] = str(num)  # else Lightning sets another number
    use_threads(num)


def trainer_for(cell: Cell, backend: Backend, ranks: Ranks) -> pl.Trainer:
    """The Trainer that runs the cell in this rank."""
    return pl.Trainer(
        accelerator=backend.accelerator,
        devices=ranks.num_here,
        num_nodes=ranks.num // ranks.num_here,
        strategy=backend.strategy() if ranks.num > 1 else "auto",
        plugins=[plugin_for(cell.precision, backend.torch_type)],
        max_epochs=cell.epochs if cell.protocol == Protocol.fit else 1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
