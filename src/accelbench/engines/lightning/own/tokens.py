"""Networks of the library transformers on random token ids."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.lightning.own.architectures import check_seq_len, config_of
from accelbench.engines.lightning.own.batch import OwnBatch
from accelbench.engines.lightning.own.task import OwnTask
from accelbench.engines.lightning.own.workload import OwnWorkload
from accelbench.engines.lightning.precision import STORED_DTYPES
from accelbench.errors import UserError
from accelbench.schema.vocab import Mode, Task
from accelbench.schema.workload import ModelSpec

LABELLED = 0.15  # share of the tokens that a masked language model is trained to predict, as in BERT
NO_LABEL = -100  # the label of a token that no loss is computed for


class TokenMaker:
    """Makes batches of random token ids, with a mask of ones and the labels of a task.

    The ids are none of the padding and the end: networks treat those differently.

    Args:
        model: gives the task and `seq_len`.
        config: of the network.
        batch_size: samples of a batch.
        dtype: of labels that are no classes.
        has_labels: whether batches have labels, so that the network computes its loss.
    """

    def __init__(self, model: ModelSpec, config: Any, batch_size: int, dtype: torch.dtype, *, has_labels: bool) -> None:
        self.model, self.config, self.batch_size, self.dtype = model, config, batch_size, dtype
        self.has_labels = has_labels
        self.seq_len: int = model.batch_args["seq_len"]
        self.end = _ids(config.eos_token_id)
        special = {*_ids(config.pad_token_id), *self.end}
        self.usable = torch.tensor([each for each in range(config.vocab_size) if each not in special])
        if not len(self.usable):
            raise UserError(f"model.args.vocab_size={config.vocab_size}: has no token besides the special ones")

    def __call__(self) -> OwnBatch:
        """A further batch, in host memory."""
        num, length = self.batch_size, self.seq_len
        ids = self.usable[torch.randint(len(self.usable), (num, length))]
        if self.config.is_encoder_decoder and self.end:
            ids[:, -1] = self.end[0]  # such networks classify the end of a text
        content = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self.has_labels:
            content["labels"] = self._labels(ids)
        return OwnBatch(content, num, num * length)

    @property
    def tokens_per_sample(self) -> float:
        """The length of a sequence."""
        return self.seq_len

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


class TransformersWorkload(OwnWorkload):
    """See `workload.Workload`. The network computes its loss itself, since it gets labels in training."""

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
        """Which attention ran."""
        if self.attention is not None:
            yield f"transformers' attention: {self.attention}"


def _ids(given: int | list[int] | None) -> list[int]:
    """Special ids, of which a configuration may have none, one or several."""
    return [] if given is None else [given] if isinstance(given, int) else list(given)
