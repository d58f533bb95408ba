"""Checks, before anything is measured, that a network runs on a batch: on tensors without contents, else on the CPU."""

from dataclasses import replace
from pathlib import Path

import pytorch_lightning as pl
import torch

from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.module import new_optimizer
from accelbench.engines.lightning.ranks import Ranks
from accelbench.engines.lightning.structure import mapped
from accelbench.engines.lightning.workloads import Images, workload_of
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.cell import Cell, Options
from accelbench.schema.vocab import Device, Library, Mode, Precision

FEW = 2  # samples; batch normalisation needs more than one
MAX_WEIGHTS = 200_000_000  # of a network that is built on the CPU to check it; building a larger one takes long
# Mistakes in names, imports and arguments: no device and no precision mends them.
EVERYWHERE = (ImportError, SyntaxError, NameError, AttributeError, TypeError)


def check(cell: Cell, data_folder: Path) -> None:
    """Builds the cell's network and runs a batch through it; in training, also through the loss and back.

    First on the meta device, which computes nothing, and knows no contents and not all rules about types; then on the
    CPU in fp32, with few samples. A failure of either is no verdict yet: a network may need contents, or whole batches.
    What fails with a whole batch on the CPU fails.

    A cell that runs elsewhere, or in another precision than fp32, may have kernels that the CPU does not have, or not
    in fp32. Of such a cell, only a mistake that is one everywhere fails: one that accelbench finds itself, and
    `EVERYWHERE`. Anything else is left to the cell.

    Raises:
        Exception: whatever the user's code raises, with a note on the input if that was chosen for it.
    """
    if cell.model.library == Library.lightning:  # its steps need a Trainer
        return
    whole = replace(cell, device=Device.cpu, devices=1, precision=Precision.fp32, options=Options())
    try:
        _check(whole, data_folder)
    except (UserError, UnsupportedError, *EVERYWHERE):
        raise
    except Exception:
        if (cell.device, cell.precision) == (Device.cpu, Precision.fp32):
            raise


def _check(cell: Cell, data_folder: Path) -> None:
    try:
        if _run(cell, data_folder, torch.device("meta")) > MAX_WEIGHTS:
            return
        if cell.model.library == Library.custom:
            _run(replace(cell, batch_size=min(FEW, cell.batch_size)), data_folder, torch.device("cpu"))
    except (UserError, UnsupportedError):
        raise
    except Exception:
        _run(cell, data_folder, torch.device("cpu"))


def _run(cell: Cell, data_folder: Path, device: torch.device) -> int:
    """Runs one step, and returns the number of the network's weights."""
    workload = workload_of(cell, data_folder, Backend(), Ranks(1))
    pl.seed_everything(cell.seed, verbose=False)
    with device:
        network = workload.build()
    batch = mapped(next(iter(workload.feed)), lambda tensor: tensor.to(device))
    parameters = list(network.parameters())
    try:
        if cell.mode == Mode.infer:
            with torch.no_grad():
                workload.check_first(workload.task.infer(network.eval(), batch))
        else:
            zoo.check_trainable(network, cell.model)
            output, loss = workload.task.train(network.train(), batch)
            workload.check_first(output)
            loss.backward()
            new_optimizer(cell.model, [parameter for parameter in parameters if parameter.requires_grad])
    except Exception as error:
        if isinstance(workload, Images) and cell.model.library == Library.custom:
            shape = tuple(batch[0].shape)
            error.add_note(f"its input is images of shape {shape}: model.batch names a function that makes others")
        raise
    return sum(parameter.numel() for parameter in parameters)
