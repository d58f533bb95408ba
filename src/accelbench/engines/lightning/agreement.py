"""The output of a cell's weights in fp32 on the CPU, which the cell's own output is compared with."""

from typing import Any

import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.module import Task
from accelbench.engines.sources import Shape
from accelbench.schema.cell import Cell


@torch.no_grad()
def reference(cell: Cell, images: Tensor, shape: Shape, num_classes: int) -> NDArray[Any]:
    """The output for `images` of the cell's network, built again from its seed in fp32.

    To be called outside of the Trainer, inside which torch creates new weights in the cell's precision.

    Args:
        cell: whose network is built.
        images: as the cell's feed gives them.
        shape: of an image, as `zoo.build` takes it.
        num_classes: of the labels.
    """
    pl.seed_everything(cell.seed, verbose=False)
    network = zoo.build(cell.model, shape, num_classes).eval()
    output: NDArray[Any] = network(Task(torch.float32).inputs(images).float()).numpy()
    return output
