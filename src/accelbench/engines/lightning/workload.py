"""What a cell computes: its network, its batches, and the inputs that its outputs are compared for."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import SystemRandom
from typing import Any, Protocol

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.feed import DrawnFeed, Feed, feed_of
from accelbench.engines.lightning.global_state import DETERMINISTIC, new_tensors_in, restore, values_of_a_cell
from accelbench.engines.lightning.outputs import described, seeded
from accelbench.engines.lightning.precision import DTYPES, MIXED, STORED_DTYPES
from accelbench.engines.lightning.ranks import Ranks
from accelbench.engines.lightning.task import ImageTask, Task
from accelbench.engines.models import output_shapes
from accelbench.engines.sources import Shape, first_images, input_of, pictures_alike, unseen_images
from accelbench.engines.targets import import_path
from accelbench.errors import UnsupportedError
from accelbench.measuring.outputs import NUM_SAMPLES, Output
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Mode, ModelOutput, Precision
from accelbench.schema.vocab import Protocol as CellProtocol


class Workload(Protocol):
    """What the engine asks of a cell's network and data.

    Attributes:
        num_rows: rows of a batch, of which each gives a row of the output; the first output may show it.
    """

    num_rows: int

    @property
    def feed(self) -> Feed:
        """The batches that are measured."""

    @property
    def task(self) -> Task:
        """What runs the network on them; it may be known only after `build`."""

    def build(self) -> nn.Module:
        """A new network, its weights drawn from torch's generator."""

    def check_layout(self) -> None:
        """Raises an UnsupportedError if `channels_last` has no effect on the inputs."""

    def check_first(self, output: object) -> None:
        """Raises a UserError if the output of the first step is not what the cell needs."""

    def test_feed(self) -> Feed:
        """The batches of the test set."""

    def calibration(self) -> Iterable[Any]:
        """Batches to find the ranges of activations with: of the training set, or as the feed draws them."""

    def shapes(self) -> Sequence[Shape] | None:
        """The shapes that the output may have; None if it may be any structure of tensors."""

    def example(self) -> Any:
        """A whole batch as the feed gives it to inference, in host memory."""

    def some_batch(self) -> Any:
        """A whole batch as the feed gives it; its tensors need no contents."""

    num_reference_rows: int
    """How many of the rows that it is given `reference` runs the network for, the first ones."""

    def unseen(self, *, labelled: bool = False) -> Any:
        """A further batch that the feed never gives, in host memory; if `labelled`, as it gives it to training."""

    def alike(self, batch: Any) -> Any:
        """A further batch that the feed never gives, drawn as this one of the feed was: on it a step does as much."""

    def reference(
        self, batches: Sequence[Any], rows: Sequence[int], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        """The outputs of a newly built network in fp32 on the CPU for each of `batches`, in turn.

        To be called outside of the Trainer, inside which torch creates new weights in the cell's precision.

        Args:
            batches: in host memory, as the feed gives them to inference.
            rows: of the output, that are compared.
            other: whether the network has other weights.
            precision: that it runs in instead of fp32.
        """

    def tokens_per_sample(self) -> float | None:
        """Tokens of the batches over their samples; None if nothing counts them."""

    def notes(self) -> Iterator[str]:
        """What a reader should know of how the batches are used."""


GAIN = 1.5  # of weights: for most activations, neither does the influence of an input vanish, nor does it explode


def set_again() -> None:
    """Sets what is global in PyTorch for a network in fp32: the user's code may have changed it while it was built."""
    restore({**values_of_a_cell(allow_tf32=False), DETERMINISTIC: 0})


@torch.no_grad()
def changed(network: nn.Module, *, other: bool) -> nn.Module:
    """The network; with `other`, its weights keep an input's influence through many layers, and none is 0."""
    if other:  # each time others
        torch.manual_seed(SystemRandom().randrange(2**31))
    for parameter in network.parameters() if other else ():
        if parameter.is_floating_point() and parameter.dim() > 1:
            parameter.copy_(torch.randn_like(parameter) * GAIN / math.sqrt(parameter[0].numel()))
        elif parameter.is_floating_point():
            parameter.add_(torch.rand_like(parameter), alpha=0.1)
    return network


def in_precision(precision: Precision) -> tuple[torch.dtype, AbstractContextManager[Any]]:
    """What new networks on the CPU store in `precision`, and the context that they compute in."""
    is_mixed = precision in MIXED
    return STORED_DTYPES[precision], torch.autocast("cpu", DTYPES[precision]) if is_mixed else nullcontext()


class Images:
    """A network that takes images: random ones, or those of a data set.

    Args:
        cell: what to compute.
        data_folder: where the data set's arrays are.
        backend: the device.
        ranks: the processes that compute the cell together.
    """

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend, ranks: Ranks) -> None:
        self.cell, self.data_folder, self.backend, self.ranks = cell, data_folder, backend, ranks
        loss = import_path("model.loss", cell.model.loss) if cell.model.loss else None
        if loss is not None and cell.protocol == CellProtocol.fit:
            raise UnsupportedError(
                "protocol=fit: evaluates with the built-in loss and accuracy, and not with model.loss: use "
                "protocol=window or steps"
            )
        self.task = ImageTask(
            STORED_DTYPES[cell.precision],
            cell.data.augment,
            reconstructs=cell.model.is_own("autoencoder"),
            channels_last=cell.options.channels_last,
            own_loss=loss,
        )
        self.trains = cell.mode == Mode.train
        self.feed = self._feed("train" if self.trains else "test")
        self.shape, self.num_classes = input_of(cell, data_folder)
        self.num_rows = cell.batch_size // ranks.num

    def _feed(self, split: str) -> Feed:
        return feed_of(self.cell, split, self.data_folder, self.task.dtype, self.backend, self.ranks.part)

    def build(self) -> nn.Module:
        """The network for images of this shape."""
        return zoo.build(self.cell.model, self.shape, self.num_classes)

    def check_layout(self) -> None:
        """Grey images have no axis of channels."""
        if len(self.shape) != 3:
            raise UnsupportedError(
                f"channels_last=true: the images have no axis of channels (each is {'x'.join(map(str, self.shape))}): "
                "use channels_last=false"
            )

    def check_first(self, output: object) -> None:
        """The built-in loss needs logits; inference needs them unless `model.output=any`."""
        if self.trains and not self.task.reconstructs and self.task.own_loss is None:
            zoo.check_logits(output, self.cell.model, self.num_classes)
        elif self.cell.model.output == ModelOutput.logits:
            zoo.check_is_tensor(output, self.cell.model)

    def test_feed(self) -> Feed:
        """The test set."""
        return self._feed("test")

    def calibration(self) -> Iterable[Any]:
        """Never of the test set, on which accuracy is measured."""
        return self._feed("train")

    def shapes(self) -> Sequence[Shape] | None:
        """Of logits, unless `model.output=any`."""
        num_logits = zoo.num_logits(self.cell.model, self.num_classes)
        return output_shapes(self.cell.model, self.num_rows, self.shape, num_logits)

    num_reference_rows = NUM_SAMPLES

    def example(self) -> tuple[Tensor, ...]:
        """The first images, repeated."""
        images = self._first_images(NUM_SAMPLES)
        return (images[torch.arange(self.num_rows) % len(images)],)

    def some_batch(self) -> tuple[Tensor, ...]:
        """Without contents, and with labels in training."""
        images = self._first_images(1)
        like = torch.empty((self.num_rows, *images.shape[1:]), dtype=images.dtype, device="meta")
        labels = torch.empty(self.num_rows, dtype=torch.int64, device="meta")
        return (like, labels) if self.trains else (like,)

    def _first_images(self, most: int) -> Tensor:
        def drawn() -> Tensor:
            assert isinstance(self.feed, DrawnFeed), "random images come from a DrawnFeed"
            images: Tensor = self.feed.batches[0][0].cpu()
            return images

        num = min(most, self.num_rows)
        return torch.as_tensor(first_images(self.cell, self.data_folder, num, drawn))

    def unseen(self, *, labelled: bool = False) -> tuple[Tensor, ...]:
        """Images of `sources.unseen_images`, with random labels."""
        like = self._first_images(1)
        images = unseen_images(self.num_rows, tuple(like.shape[1:]), floats=like.is_floating_point())
        inputs = torch.from_numpy(images).to(like.dtype)
        return (inputs, torch.randint(self.num_classes, (self.num_rows,))) if labelled else (inputs,)

    def alike(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Other random images, or pictures of the data set that are shifted; with the labels of the batch."""
        images, *labels = batch
        random = images.is_floating_point()
        other = torch.randn(images.shape) if random else torch.from_numpy(pictures_alike(images.numpy()))
        return (other.to(images.dtype), *labels)

    @torch.no_grad()
    def reference(
        self,
        batches: Sequence[tuple[Tensor, ...]],
        rows: Sequence[int],
        *,
        other: bool = False,
        precision: Precision | None = None,
    ) -> list[Output]:
        """For the images of the first rows alone."""
        pl.seed_everything(self.cell.seed, verbose=False)
        network = changed(self.build(), other=other).eval()
        set_again()
        dtype, context = in_precision(precision or Precision.fp32)
        network, task = network.to(dtype), ImageTask(dtype)
        chosen = torch.tensor(rows[:NUM_SAMPLES])
        images = [batch[0][chosen] for batch in batches]
        with context, new_tensors_in(dtype):
            outputs = list(seeded(images, lambda each: network(task.inputs(each).to(dtype))))
        return [described(output, len(chosen), range(len(chosen))) for output in outputs]

    def tokens_per_sample(self) -> None:
        """Images have no tokens."""

    def notes(self) -> Iterator[str]:
        """None."""
        yield from ()
