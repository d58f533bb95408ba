"""How far a cell's output is from what the same weights give in fp32 on the CPU."""

import math

import pytorch_lightning as pl
import torch
from torch import Tensor

from accelbench.cell import Cell
from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.module import Task
from accelbench.engines.lightning.networks import Shape
from accelbench.vocab import Precision

NUM_SAMPLES = 2
# What relative difference is more than rounding: of formats with 24 bits and more, and of those with 8 to 11.
MAX_ERROR = 1e-3
MAX_ROUNDED_ERROR = 0.1


@torch.no_grad()
def output_error(output: Tensor, cell: Cell, images: Tensor, shape: Shape, num_classes: int) -> float | None:
    """The norm of the difference over the norm of fp32's output.

    To be called outside of the Trainer, which has torch make new weights in the cell's precision.

    Args:
        output: what the cell made of the first of `images`, in float64 on the host.
        cell: whose network, with its seed, is built anew.
        images: as its feed gives them.
        shape: of an image, as `zoo.build` takes it.
        num_classes: of the labels.

    Returns:
        None where one of them is not finite, or all of fp32's output is zero.
    """
    pl.seed_everything(cell.seed, verbose=False)
    network = zoo.build(cell.model, shape, num_classes).eval()
    reference = network(Task(torch.float32).inputs(images).float()).double()[: len(output)]
    norm = reference.norm().item()
    error = (output - reference).norm().item() / norm if norm else math.nan
    return error if math.isfinite(error) else None


def limit(precision: Precision) -> float:
    """The largest `output_error` that rounding explains."""
    return MAX_ERROR if precision in (Precision.fp32, Precision.fp64) else MAX_ROUNDED_ERROR
