"""The same weights' output in fp32 on the CPU, for a cell's output to be held against."""

import pytorch_lightning as pl
import torch
from torch import Tensor

from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.module import Task
from accelbench.engines.lightning.networks import Shape
from accelbench.measuring.output_error import NUM_SAMPLES as NUM_SAMPLES
from accelbench.measuring.output_error import limit as limit
from accelbench.measuring.output_error import relative_error
from accelbench.schema.cell import Cell


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
    reference = network(Task(torch.float32).inputs(images).float())[: len(output)]
    return relative_error(output.numpy(), reference.numpy())
