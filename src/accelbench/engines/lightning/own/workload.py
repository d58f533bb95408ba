"""A network on batches of the user's (`model.batch`), or one of the library transformers on random token ids."""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from accelbench.engines.lightning.outputs import changed, described, in_precision, seeded, set_again, size_of
from accelbench.engines.lightning.own.architectures import TokenMaker
from accelbench.engines.lightning.own.batch import (
    BatchMaker,
    OwnBatch,
    OwnTask,
    check_joined,
    count_note,
    put_batch,
    tensors_of,
)
from accelbench.engines.lightning.ranks import RANK_SEEDS, Ranks
from accelbench.engines.lightning.structure import is_same, joined, mapped, tensors_in, varied_rows
from accelbench.engines.served import NUM_DRAWN
from accelbench.engines.targets import check_call, import_path
from accelbench.errors import UnsupportedError
from accelbench.measuring.output_check import NUM_ROWS, Output
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Pipeline, Precision


class OwnWorkload:
    """See `workloads.Images`, which says what the methods do."""

    num_reference_rows = NUM_ROWS
    task: OwnTask  # known once the network is built
    collate: Callable[[Sequence[Any]], Any] = staticmethod(joined)

    def __init__(self, cell: Cell, backend: Backend, ranks: Ranks) -> None:
        self.cell = cell
        self.num_samples = num = cell.batch_size // ranks.num
        self.maker = self._maker(num)
        pl.seed_everything(cell.seed + RANK_SEEDS * ranks.part[0], verbose=False)
        pipeline = cell.data.pipeline
        put = partial(put_batch, backend.put) if pipeline == Pipeline.device else None
        self.feed = DrawnFeed(self.maker, num, fresh=pipeline == Pipeline.fresh, put=put)
        self.first: OwnBatch = self.feed.batches[0]
        self.num_rows = self.first.num_rows

    def _maker(self, num: int) -> BatchMaker | TokenMaker:
        return BatchMaker(self.cell, num)

    def _task(self, network: nn.Module) -> OwnTask:
        model, loss = self.cell.model, None
        flag = f"model.loss={model.loss}"
        if model.loss:
            loss = import_path("model.loss", model.loss)
            check_call(f"{flag}, called with (output, batch)", loss, None, None)
        batch_flag = f"model.batch={model.batch}"
        return OwnTask(network, self.first, loss, inputs=model.inputs, batch_flag=batch_flag, loss_flag=flag)

    def build(self) -> nn.Module:
        pl.seed_everything(self.cell.seed, verbose=False)
        network = zoo.build(self.cell.model, (), 0)
        self.task = self._task(network)
        return network

    def check_layout(self) -> None:
        if all(tensor.dim() != 4 for tensor in tensors_in(self.first)):
            told = "no tensor of the batch has 4 dimensions: use channels_last=false"
            raise UnsupportedError(f"channels_last=true: {told}")

    def check_first(self, output: object) -> None:
        """Any output will do. If samples are counted, it shows what its rows stand for."""
        if self.cell.model.samples:
            self.num_rows = size_of(output, (self.first.num_rows, self.first.num_samples))

    def test_feed(self) -> Feed:
        raise UnsupportedError("protocol=fit: batches that are drawn have no epochs: use protocol=window")

    def calibration(self) -> DrawnFeed:
        return self.feed

    def requests(self, num: int) -> list[OwnBatch]:
        """At most so many batches of one sample. Raises UserError: they can't be joined."""
        make, model = self._maker(1), self.cell.model
        pool = [make() for _ in range(min(num, NUM_DRAWN))]
        if model.collate:
            self.collate = import_path("model.collate", model.collate)
            tensors_of(f"model.collate={model.collate}: should return", self.joined(pool).content)
        elif self.num_samples > 1:
            check_joined(f"model.batch={model.batch}", pool, self.first)
        return pool

    def joined(self, requests: Sequence[OwnBatch]) -> OwnBatch:
        contents, num = [each.content for each in requests], sum(each.num_samples for each in requests)
        return OwnBatch(self.collate(contents), num)

    def shapes(self) -> None:
        return None

    def example(self) -> OwnBatch:
        first: OwnBatch = mapped(self.first, Tensor.cpu)
        return first

    some_batch = example

    def unseen(self, *, labelled: bool = False) -> OwnBatch:
        """A batch that is drawn from a random seed. If it is one of the feed's, whatever the seed, it is varied."""
        pl.seed_everything(SystemRandom().randrange(2**31, 2**32), verbose=False)
        unseen = self._maker(self.num_samples)()  # of another maker, whose tokens do not count
        if any(is_same(mapped(each, Tensor.cpu), unseen) for each in [self.first, *self.feed.batches]):
            unseen = varied_rows(unseen, unseen.num_rows)
        return unseen

    def alike(self, batch: OwnBatch) -> OwnBatch:
        return self.unseen()

    def reference(self, batches: Sequence[OwnBatch], rows: Sequence[int], **how: Any) -> list[Output]:
        """For whole batches: which dimensions of their tensors are those of the samples is not known."""
        return of_new_network(self.build, self.task.infer, batches, (self.num_rows, rows), **how)

    def tokens_per_sample(self) -> float | None:
        return self.maker.tokens_per_sample

    def notes(self) -> Iterator[str]:
        if self.task.left_out:
            taken, left_out = (", ".join(map(str, keys)) for keys in (self.task.keys or (), self.task.left_out))
            yield f"of a batch, the network gets {taken}, and the loss alone gets {left_out}"
        if note := count_note(self.cell.model, self.first.num_samples, self.num_samples, self.first.num_rows):
            yield note


@torch.no_grad()
def of_new_network(
    build: Callable[[], nn.Module],
    infer: Callable[[Any, Any], Any],
    batches: Iterable[Any],
    size_and_rows: tuple[int, Sequence[int]],
    *,
    other: bool = False,
    precision: Precision | None = None,
) -> list[Output]:
    """The outputs of a new network on the CPU; see `ComparedOutputs.reference_outputs`."""
    network = changed(build(), other=other).eval()
    set_again()
    dtype, context = in_precision(precision or Precision.fp32)

    def copied(tensor: Tensor) -> Tensor:  # the user's code may change it
        return tensor.to(dtype if tensor.is_floating_point() else tensor.dtype, copy=True)

    with context, new_tensors_in(dtype):
        network = network.to(dtype)
        copies = [mapped(batch, copied) for batch in batches]  # at once: code may keep outputs by address
        outputs = list(seeded(copies, lambda batch: infer(network, batch)))
    return [described(output, *size_and_rows) for output in outputs]


class TransformersWorkload(OwnWorkload):
    """The network computes its loss itself, since it gets labels in training."""

    def _maker(self, num: int) -> TokenMaker:
        return TokenMaker(self.cell, num)

    def _task(self, network: nn.Module) -> OwnTask:
        config: Any = network.config
        self.attention = getattr(config, "_attn_implementation", None)
        return OwnTask(network, self.first, lambda output, _: output.loss)

    def notes(self) -> Iterator[str]:
        yield f"transformers' attention: {self.attention}"
