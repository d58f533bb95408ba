"""The workload of a cell: a network and its batches.

This file contains workloads on images. `own_batches` and `generate` contain the other workloads.
"""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.data.arrays import load_split
from accelbench.engines.images import input_of, is_random, unseen_images
from accelbench.engines.pytorch import zoo
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.feed import DrawnFeed, Feed, feed_of
from accelbench.engines.pytorch.generate import GenerateWorkload
from accelbench.engines.pytorch.module import ImageTask
from accelbench.engines.pytorch.own_batches import BaseWorkload, OwnWorkload, TransformersWorkload
from accelbench.engines.pytorch.precision import STORED_DTYPES, seed_generators
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.engines.pytorch.structure import mapped
from accelbench.engines.served import NUM_DRAWN
from accelbench.engines.targets import import_path
from accelbench.schema.cell import Cell, Library, Mode, ModelOutput, Pipeline

NUM_EXAMPLES = 2  # different images in an example batch


class Images(BaseWorkload):
    """A network on random images or on the images of a data set. The methods return batches in host memory."""

    task: ImageTask

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend, ranks: Ranks) -> None:
        self.cell = cell
        self.data_folder = data_folder
        self.backend = backend
        self.ranks = ranks
        model = cell.model
        self.task = ImageTask(
            STORED_DTYPES[cell.precision],
            cell.data.augment,
            reconstructs=model.is_own("autoencoder"),
            channels_last=cell.options.channels_last,
            own_loss=import_path("model.loss", model.loss) if model.loss else None,
            own_metric=import_path("model.metric", model.metric) if model.metric else None,
        )
        self.trains = cell.mode == Mode.train
        self.feed = self.feed_of("train" if self.trains else "test")
        self.shape, self.num_classes = input_of(cell, data_folder)
        self.num_samples = cell.batch_size // ranks.num

    def feed_of(self, split: str) -> Feed:
        """The feed of the split "train", "test" or `VALIDATION`."""
        return feed_of(self.cell, split, self.data_folder, self.task.dtype, self.backend, self.ranks.part)

    def build(self) -> nn.Module:
        """Builds the network. The cell's seed determines the weights, unless they are pretrained or in a file."""
        seed_generators(self.cell.seed)
        network = zoo.build(self.cell.model, self.shape, self.num_classes)
        return zoo.materialised(
            network, lambda lazy: self.task.infer(lazy, mapped(self.example(), Tensor.float))
        )

    def check_first(self, output: object) -> None:
        """Raises UserError if the output of the first step must be logits, but is something else.

        Any output is allowed if the network reconstructs images. In training, any output is allowed if the user has set
        `model.loss`. In inference, any output is allowed if `model.output=any`.
        """
        takes_any = (
            self.task.own_loss is not None if self.trains else self.cell.model.output == ModelOutput.any
        )
        if not (takes_any or self.task.reconstructs):
            zoo.check_logits(output, self.cell.model, self.num_classes)

    def requests(self, num: int) -> list[Any]:
        """Returns at most `num` batches, each with one image: the first images of the test set, or random images."""
        data = self.cell.data
        if is_random(self.cell):
            num = min(num, NUM_DRAWN)
            data = replace(data, pipeline=Pipeline.fresh)
        single = replace(self.cell, batch_size=1, data=data)
        feed = feed_of(single, "test", self.data_folder, self.task.dtype, self.backend)
        return [mapped(batch, Tensor.clone) for batch in islice(feed, num)]

    def example(self) -> Any:
        """Returns a full batch. It repeats a few images (random or of the test set). In training, all labels are 0."""
        images = self._first_images()
        images = images[torch.arange(self.num_samples) % len(images)]
        return (images, torch.zeros(self.num_samples, dtype=torch.int64)) if self.trains else (images,)

    def _first_images(self) -> Tensor:
        num = min(NUM_EXAMPLES, self.num_samples)
        if isinstance(self.feed, DrawnFeed):
            images: Tensor = self.feed.batches[0][0].cpu()
            return images[:num]
        return torch.from_numpy(load_split(self.data_folder, "test").images[:num])

    def unseen(self) -> tuple[Any, bool]:
        """Returns a batch of noise, and True: it differs from all measured batches. In training, it has labels."""
        like = self._first_images()
        images = unseen_images(self.num_samples, tuple(like.shape[1:]), floats=like.is_floating_point())
        inputs = torch.from_numpy(images).to(like.dtype)
        return (
            (inputs, torch.randint(self.num_classes, (self.num_samples,))) if self.trains else (inputs,)
        ), True

    def task_in(self, dtype: torch.dtype) -> ImageTask:
        return replace(self.task, dtype=dtype)


Workload = Images | OwnWorkload


def workload_of(cell: Cell, data_folder: Path, backend: Backend, ranks: Ranks) -> Workload:
    """Creates the workload of a cell. `data_folder` contains the prepared arrays. The `ranks` divide every batch."""
    if cell.mode == Mode.generate:
        return GenerateWorkload(cell, backend, ranks)
    if cell.model.library == Library.transformers:
        return TransformersWorkload(cell, backend, ranks)
    if cell.model.batch is not None:
        return OwnWorkload(cell, backend, ranks)
    return Images(cell, data_folder, backend, ranks)
