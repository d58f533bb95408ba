"""A network of the user's on batches of the user's (`model.batch`)."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from random import SystemRandom
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.feed import DrawnFeed, Feed
from accelbench.engines.lightning.global_state import new_tensors_in
from accelbench.engines.lightning.outputs import described, seeded, size_of
from accelbench.engines.lightning.own.batch import BatchMaker, Maker, OwnBatch, count_note, put_batch
from accelbench.engines.lightning.own.task import OwnTask
from accelbench.engines.lightning.precision import STORED_DTYPES
from accelbench.engines.lightning.ranks import RANK_SEEDS, Ranks
from accelbench.engines.lightning.structure import is_same, mapped, tensors_in, varied_rows
from accelbench.engines.lightning.workload import changed, in_precision, set_again
from accelbench.errors import UnsupportedError
from accelbench.measuring.output_check import NUM_ROWS
from accelbench.measuring.outputs import Output
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Pipeline, Precision


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

    num_reference_rows = NUM_ROWS

    def unseen(self, *, labelled: bool = False) -> OwnBatch:
        """A batch that is drawn from another seed, a random one.

        If the function gives a batch again, whatever the seed, it is varied.
        """
        pl.seed_everything(SystemRandom().randrange(2**31, 2**32), verbose=False)
        unseen = self._maker(self.num_samples)()  # of another maker, whose tokens do not count
        known = self.feed.batches if isinstance(self.feed, DrawnFeed) else []
        if any(is_same(mapped(each, torch.Tensor.cpu), unseen) for each in [self.example(), *known]):
            unseen = varied_rows(unseen, unseen.num_rows)
        return unseen

    def alike(self, batch: OwnBatch) -> OwnBatch:
        """A batch that is drawn like those of the feed."""
        return self.unseen()

    @torch.no_grad()
    def reference(
        self,
        batches: Sequence[OwnBatch],
        rows: Sequence[int],
        *,
        other: bool = False,
        precision: Precision | None = None,
    ) -> list[Output]:
        """For whole batches: which dimensions of their tensors are those of the samples is not known."""
        pl.seed_everything(self.cell.seed, verbose=False)
        network = changed(self.build(), other=other).eval()
        set_again()
        dtype, context = in_precision(precision or Precision.fp32)
        with context, new_tensors_in(dtype):
            network = network.to(dtype)
            outputs = list(
                seeded(batches, lambda batch: self.task.infer(network, mapped(batch, lambda each: _as(each, dtype))))
            )
        return [described(output, self.num_rows, rows) for output in outputs]

    def tokens_per_sample(self) -> float | None:
        """Over all batches that were made."""
        return self.maker.tokens_per_sample

    def notes(self) -> Iterator[str]:
        """Which keys of a batch the network does not get, and what counts as a sample if that is not a row."""
        if self.task.division:
            yield f"of a batch, {self.task.division}"
        if note := count_note(self.cell.model, self.first.num_samples, self.num_samples, self.first.num_rows):
            yield note


def _as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
