"""The output of a cell's weights in fp32 on the CPU, which the cell's own output is compared with."""

from collections.abc import Sequence

import pytorch_lightning as pl
import torch
from torch import Tensor

from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.module import Task
from accelbench.engines.lightning.outputs import described
from accelbench.engines.sources import Shape
from accelbench.measuring.output_check import Output
from accelbench.schema.cell import Cell


@torch.no_grad()
def reference(cell: Cell, batches: Sequence[Tensor], shape: Shape, num_classes: int) -> list[Output]:
    """The outputs for each of `batches`, in turn, of the cell's network, built again from its seed in fp32.

    To be called outside of the Trainer, inside which torch creates new weights in the cell's precision.

    Args:
        cell: whose network is built.
        batches: a few images each, as the cell's feed gives them.
        shape: of an image, as `zoo.build` takes it.
        num_classes: of the labels.
    """
    pl.seed_everything(cell.seed, verbose=False)
    network = zoo.build(cell.model, shape, num_classes).eval()
    task = Task(torch.float32)
    return [described(network(task.inputs(images).float()), len(images), len(images)) for images in batches]
