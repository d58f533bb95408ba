"""The answers of a trained classifier, beside those of the same weights in fp32 in PyTorch."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from accelbench.data.arrays import load_split
from accelbench.engines.lightning.task import ImageTask
from accelbench.engines.lightning.workload import Workload
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Answers
from accelbench.schema.vocab import Library, Pipeline, Weights

MAX_S = 20.0  # that asking may take; the test set's first samples have to do then

# Libraries of networks that classify images.
CLASSIFYING = frozenset({Library.accelbench, Library.timm, Library.torchvision})


def has_answers(cell: Cell) -> bool:
    """Whether the cell's network was trained, and classifies images whose classes are known."""
    trained = cell.model.weights != Weights.none and cell.data.pipeline in (Pipeline.array, Pipeline.jpeg)
    return trained and cell.model.library in CLASSIFYING and not cell.model.is_own("autoencoder")


@torch.no_grad()
def compared(
    cell: Cell, data_folder: Path, workload: Workload, measured: Callable[[Any], Tensor], max_s: float = MAX_S
) -> Answers:
    """Asks both on the test set, in whole batches.

    Args:
        cell: with `has_answers`.
        data_folder: where the data set's arrays are.
        workload: of the cell.
        measured: a whole batch of images, as a feed gives it -> the logits of what was measured.
        max_s: seconds after which no more batches are asked.
    """
    pl.seed_everything(cell.seed, verbose=False)
    network, task = workload.build().eval(), ImageTask(torch.float32)
    arrays = load_split(data_folder, "test")
    size, began = cell.batch_size, time.monotonic()
    num = num_right = num_fp32_right = num_won = 0
    for start in range(0, len(arrays.labels), size):
        labels = torch.from_numpy(arrays.labels[start : start + size]).long()
        images = torch.from_numpy(arrays.images[start : start + size])
        whole = images[torch.arange(size) % len(images)]  # a short last batch is filled up: the shape is compiled
        right = task.answers(measured((whole,)))[: len(labels)] == labels
        fp32_right = task.answers(network(task.inputs(images))) == labels
        num += len(labels)
        num_right += int(right.sum())
        num_fp32_right += int(fp32_right.sum())
        num_won += int((right & ~fp32_right).sum())
        if time.monotonic() - began > max_s:
            break
    return Answers(num_samples=num, num_right=num_right, num_fp32_right=num_fp32_right, num_won=num_won)
