"""A network on batches of the user's (`model.batch`), or one of the library transformers on random token ids."""

from collections.abc import Iterator, Sequence
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
from accelbench.engines.lightning.own.architectures import check_seq_len, config_of
from accelbench.engines.lightning.own.batch import BatchMaker, OwnBatch, OwnTask, count_note, put_batch
from accelbench.engines.lightning.precision import STORED_DTYPES
from accelbench.engines.lightning.ranks import RANK_SEEDS, Ranks
from accelbench.engines.lightning.structure import is_same, mapped, tensors_in, varied_rows
from accelbench.errors import UnsupportedError, UserError
from accelbench.measuring.output_check import NUM_ROWS, Output
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Mode, Pipeline, Precision, Task
from accelbench.schema.workload import ModelSpec

LABELLED = 0.15  # share of the tokens that a masked language model is trained to predict, as in BERT
NO_LABEL = -100  # the label of a token that no loss is computed for


class OwnWorkload:
    """See `workloads.Images`, which says what the methods do."""

    num_reference_rows = NUM_ROWS
    task: OwnTask  # known once the network is built

    def __init__(self, cell: Cell, backend: Backend, ranks: Ranks) -> None:
        self.cell, self.backend = cell, backend
        self.seed = cell.seed + RANK_SEEDS * ranks.part[0]
        self.num_samples = num = cell.batch_size // ranks.num
        self.maker = self._maker(num)
        pl.seed_everything(self.seed, verbose=False)
        pipeline = cell.data.pipeline
        put = partial(put_batch, backend.put) if pipeline == Pipeline.device else None
        self.feed = DrawnFeed(self.maker, num, fresh=pipeline == Pipeline.fresh, put=put)
        self.first: OwnBatch = self.feed.batches[0]
        self.num_rows = self.first.num_rows

    def _maker(self, num: int) -> "BatchMaker | TokenMaker":
        cell = self.cell
        return BatchMaker(cell.model, num, STORED_DTYPES[cell.precision], channels_last=cell.options.channels_last)

    def _task(self, network: nn.Module) -> OwnTask:
        return OwnTask(self.cell.model, network, self.first)

    def build(self) -> nn.Module:
        network = zoo.build(self.cell.model, (), 0)
        self.task = self._task(network)
        return network

    def check_layout(self) -> None:
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
        raise UnsupportedError("protocol=fit: batches that are drawn have no epochs: use protocol=window")

    def calibration(self) -> DrawnFeed:
        return self.feed

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

        def cast(tensor: Tensor) -> Tensor:
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        with context, new_tensors_in(dtype):
            network = network.to(dtype)
            outputs = list(seeded(batches, lambda batch: self.task.infer(network, mapped(batch, cast))))
        return [described(output, self.num_rows, rows) for output in outputs]

    def tokens_per_sample(self) -> float | None:
        return self.maker.tokens_per_sample

    def notes(self) -> Iterator[str]:
        if self.task.division:
            yield f"of a batch, {self.task.division}"
        if note := count_note(self.cell.model, self.first.num_samples, self.num_samples, self.first.num_rows):
            yield note


class TokenMaker:
    """Makes batches of random token ids, with a mask of ones and perhaps the labels of the task.

    The ids are none of the padding and the end: networks treat those differently. Labels that are no classes have the
    `dtype`; with labels the network computes its loss.
    """

    def __init__(self, model: ModelSpec, config: Any, batch_size: int, dtype: torch.dtype, *, has_labels: bool) -> None:
        self.model, self.config, self.batch_size, self.dtype = model, config, batch_size, dtype
        self.has_labels = has_labels
        self.tokens_per_sample: int = model.batch_args["seq_len"]
        self.end = _ids(config.eos_token_id)
        special = {*_ids(config.pad_token_id), *self.end}
        self.usable = torch.tensor([each for each in range(config.vocab_size) if each not in special])
        if not len(self.usable):
            raise UserError(f"model.args.vocab_size={config.vocab_size}: has no token besides the special ones")

    def __call__(self) -> OwnBatch:
        """A further batch, in host memory."""
        num, length = self.batch_size, self.tokens_per_sample
        ids = self.usable[torch.randint(len(self.usable), (num, length))]
        if self.config.is_encoder_decoder and self.end:
            ids[:, -1] = self.end[0]  # such networks classify the end of a text
        content = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self.has_labels:
            content["labels"] = self._labels(ids)
        return OwnBatch(content, num, num * length)

    def _labels(self, ids: Tensor) -> Tensor:
        if self.model.task == Task.causal_lm:
            return ids.clone()
        if self.model.task == Task.masked_lm:
            labelled = torch.rand(ids.shape) < LABELLED
            labelled[:, 0] = True  # a batch without labels would have no loss
            return torch.where(labelled, ids, NO_LABEL)
        num, classes = len(ids), self.config.num_labels
        if self.config.problem_type == "multi_label_classification":
            return torch.randint(2, (num, classes)).to(self.dtype)
        if self.config.problem_type == "regression" or classes == 1:
            return torch.rand(num, *([] if classes == 1 else [classes])).to(self.dtype)
        return torch.randint(classes, (num,))


def _ids(given: int | list[int] | None) -> list[int]:
    """Special ids, of which a configuration may have none, one or several."""
    return [] if given is None else [given] if isinstance(given, int) else list(given)


class TransformersWorkload(OwnWorkload):
    """The network computes its loss itself, since it gets labels in training."""

    attention: str | None = None

    def _maker(self, num: int) -> TokenMaker:
        cell = self.cell
        config = config_of(cell.model)
        check_seq_len(cell.model, config)
        return TokenMaker(cell.model, config, num, STORED_DTYPES[cell.precision], has_labels=cell.mode == Mode.train)

    def _task(self, network: nn.Module) -> OwnTask:
        config: Any = network.config
        self.attention = getattr(config, "_attn_implementation", None)
        check_seq_len(self.cell.model, config, network)
        return OwnTask(self.cell.model, network, self.first, lambda output, _: output.loss)

    def notes(self) -> Iterator[str]:
        if self.attention is not None:
            yield f"transformers' attention: {self.attention}"
