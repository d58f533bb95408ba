"""A network of the user's on batches of the user's (`model.batch`)."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.feed import DrawnFeed, Feed
from accelbench.engines.lightning.outputs import described, size_of
from accelbench.engines.lightning.own.batch import BatchMaker, Maker, OwnBatch, count_note, put_batch
from accelbench.engines.lightning.own.task import OwnTask
from accelbench.engines.lightning.precision import STORED_DTYPES
from accelbench.engines.lightning.ranks import RANK_SEEDS, Ranks
from accelbench.engines.lightning.structure import mapped, tensors_in
from accelbench.errors import UnsupportedError
from accelbench.measuring.output_check import Output
from accelbench.measuring.output_error import NUM_SAMPLES
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Pipeline

UNSEEN_SEED = 2**31  # added to a cell's seed: it draws batches that the feed does not give


class OwnWorkload:
    """See `workload.Workload`.

    Args:
        cell: what to compute.
        backend: the device.
        ranks: the processes that compute the cell together.
    """

    task: OwnTask

    def __init__(self, cell: Cell, backend: Backend, ranks: Ranks) -> None:
        self.cell, self.backend = cell, backend
        self.seed = cell.seed + RANK_SEEDS * ranks.part[0]
        self.num_samples = num = cell.batch_size // ranks.num
        self.maker = self._maker(num)
        pl.seed_everything(self.seed, verbose=False)
        pipeline = cell.data.pipeline
        put = partial(put_batch, backend.put) if pipeline == Pipeline.device else None
        feed = DrawnFeed(self.maker, num, fresh=pipeline == Pipeline.fresh, put=put)
        self.feed = feed
        self.first: OwnBatch = feed.batches[0]
        self.num_rows = self.first.num_rows

    def _maker(self, num: int) -> Maker:
        """What makes batches of `num` samples."""
        cell = self.cell
        return BatchMaker(cell.model, num, STORED_DTYPES[cell.precision], channels_last=cell.options.channels_last)

    def _task(self, network: nn.Module) -> OwnTask:
        """How `network` runs on them."""
        return OwnTask(self.cell.model, network, self.first)

    def build(self) -> nn.Module:
        """The network; then it is known which parts of a batch it takes."""
        network = zoo.build(self.cell.model, (), 0)
        self.task = self._task(network)
        return network

    def check_layout(self) -> None:
        """Some tensor should have channels, height and width."""
        if all(tensor.dim() != 4 for tensor in tensors_in(self.first)):
            raise UnsupportedError(
                "channels_last=true: no tensor of the batch has 4 dimensions (samples, channels, height, width): use "
                "channels_last=false"
            )

    def check_first(self, output: object) -> None:
        """Any output will do. If samples are counted, it shows what its rows stand for."""
        if self.cell.model.samples:
            self.num_rows = size_of(output, (self.first.num_rows, self.first.num_samples))

    def test_feed(self) -> Feed:
        """Raises an UnsupportedError: whole epochs need a data set."""
        raise UnsupportedError("protocol=fit: batches that are drawn have no epochs: use protocol=window")

    def calibration(self) -> Iterable[Any]:
        """As they are measured."""
        return self.feed

    def shapes(self) -> None:
        """Any."""

    def example(self) -> OwnBatch:
        """The first one."""
        first: OwnBatch = mapped(self.first, lambda tensor: tensor.cpu())
        return first

    def some_batch(self) -> OwnBatch:
        """The first one."""
        return self.example()

    def compared(self) -> tuple[OwnBatch, OwnBatch]:
        """The first batch, and one that is drawn from another seed.

        If the function gives the same batch again, whatever the seed, its samples change places.
        """
        fed = self.example()
        pl.seed_everything((self.seed + UNSEEN_SEED) % 2**32, verbose=False)
        unseen = self._maker(self.num_samples)()  # of another maker, whose tokens do not count
        if all(torch.equal(*pair) for pair in zip(tensors_in(fed), tensors_in(unseen), strict=False)):
            unseen = mapped(fed, lambda tensor: tensor.roll(1, 0) if tensor.dim() else tensor)
        return fed, unseen

    def whole(self, inputs: OwnBatch) -> OwnBatch:
        """A copy."""
        copied: OwnBatch = mapped(inputs, lambda tensor: tensor.clone())
        return copied

    def rows(self, inputs: OwnBatch) -> int:
        """The first ones."""
        num: int = min(NUM_SAMPLES, self.num_rows)
        return num

    @torch.no_grad()
    def reference(self, batches: Sequence[OwnBatch]) -> list[Output]:
        """For whole batches: which dimensions of their tensors are those of the samples is not known."""
        pl.seed_everything(self.cell.seed, verbose=False)
        network = self.build().eval()
        outputs = (self.task.infer(network, mapped(batch, _as_fp32)) for batch in batches)
        return [described(output, self.num_rows, self.rows(batches[0])) for output in outputs]

    def tokens_per_sample(self) -> float | None:
        """Over all batches that were made."""
        return self.maker.tokens_per_sample

    def notes(self) -> Iterator[str]:
        """Which keys of a batch the network does not get, and what counts as a sample if that is not a row."""
        if self.task.division:
            yield f"of a batch, {self.task.division}"
        if note := count_note(self.cell.model, self.first.num_samples, self.num_samples, self.first.num_rows):
            yield note


def _as_fp32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor
