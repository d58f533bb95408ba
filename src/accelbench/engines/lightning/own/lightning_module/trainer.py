"""Lightning's Trainer for a LightningModule of the user, from the package whose LightningModule it extends."""

import importlib
import logging
import warnings
from typing import Any

from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.precision import MIXED
from accelbench.schema.cell import Cell, TrainerSettings
from accelbench.schema.vocab import Precision

MAX_EPOCHS = 1000  # Lightning's default, from which schedules are made; the engine lets the loop go on after it
# What Lightning warns about is intended here, or is what the user's own runs do too.
INTENDED = (
    "predict returned None",
    "You defined a `validation_step`",
    "The number of training batches",
    "Your `predict_dataloader`'s sampler has shuffling enabled",
    "ReduceLROnPlateau conditioned on metric",
    "Couldn't infer the batch indices",
)


def trainer_for(package: str, cell: Cell, backend: Backend) -> Any:
    """The Trainer that runs the cell.

    A logger that drops everything stands in, so that `self.logger.experiment` works.

    Args:
        package: `pytorch_lightning` or `lightning.pytorch`.
        cell: what to run.
        backend: the device.
    """
    for logger in (package, package.replace(".pytorch", ".fabric")):
        logging.getLogger(logger).setLevel(logging.ERROR)
    for note in INTENDED:
        warnings.filterwarnings("ignore", message=note)
    settings = cell.trainer or TrainerSettings()
    return importlib.import_module(package).Trainer(
        accelerator=backend.accelerator,
        devices=1,
        plugins=[plugin_for(package, cell.precision, backend.torch_type)],
        max_epochs=MAX_EPOCHS,
        accumulate_grad_batches=settings.accumulate_grad_batches,
        gradient_clip_val=settings.gradient_clip_val,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        logger=importlib.import_module(f"{package}.loggers.logger").DummyLogger(),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def plugin_for(package: str, precision: Precision, torch_type: str) -> Any:
    """Lightning's own plugin that computes in `precision` on `torch_type` (`cpu` or `cuda`).

    The Trainer's argument `precision=` substitutes silently: see `lightning.precision.plugin_for`.
    """
    plugins = importlib.import_module(f"{package}.plugins.precision")
    if precision in MIXED:
        return plugins.MixedPrecision(MIXED[precision], torch_type)
    if precision == Precision.fp64:
        return plugins.DoublePrecision()
    if precision in (Precision.fp16, Precision.bf16):
        return plugins.HalfPrecision("16-true" if precision == Precision.fp16 else "bf16-true")
    return plugins.Precision()
