"""Workloads without a data set: the user's batches (`model.batch`), and random tokens for transformers' networks."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import SystemRandom
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.pytorch import structure, zoo
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.feed import DrawnFeed, pins
from accelbench.engines.pytorch.module import Loss
from accelbench.engines.pytorch.precision import STORED_DTYPES, cast_tensor, seed_generators
from accelbench.engines.pytorch.ranks import RANK_SEEDS, Ranks
from accelbench.engines.pytorch.structure import have_rows, is_same, mapped, tensors_in, varied
from accelbench.engines.served import NUM_DRAWN
from accelbench.engines.targets import check_call, import_path
from accelbench.errors import UserError
from accelbench.schema.cell import Cell, Mode, ModelSpec, Pipeline, Task
from accelbench.schema.serialize import MAX_COUNT
from accelbench.schema.text import beginning, one_line

MAX_SHOWN = 60  # characters of a returned value in a message
LABELLED = 0.15  # share of tokens that a masked language model predicts in training, as in BERT
NO_LABEL = -100  # label of tokens without a loss, in transformers


def tensors_of(should: str, batch: Any) -> list[Tensor]:
    """Returns the tensors of a batch. Raises UserError if the batch has none.

    `should` is the beginning of the error's message, such as `model.batch=nets.batch: should return`.
    """
    tensors = list(tensors_in(batch))
    if not tensors:
        raise UserError(f"{should} a tensor, a tuple or a mapping of tensors, not a {type(batch).__name__}")
    return tensors


class BatchMaker:
    """Makes batches with the user's functions, and checks the batches.

    Floating-point tensors are converted to the cell's dtype. With `channels_last`, tensors of 4 dimensions are also
    converted to this memory format. Raises UserError if a function can't be imported.
    """

    def __init__(self, cell: Cell, batch_size: int) -> None:
        model = cell.model
        self.batch_size, self.batch_args, self.channels_last = (
            batch_size,
            model.batch_args,
            cell.options.channels_last,
        )
        self.dtype = STORED_DTYPES[cell.precision]
        self.num_samples, self.num_tokens = 0, 0  # totals of all batches that were made
        self.num_counted = 0  # samples in the first batch; 0 before it was made
        self.flag = f"model.batch={model.batch}"
        self.make = import_path("model.batch", model.batch or "")
        called = ", ".join(["batch_size", *(f"{name}={value}" for name, value in model.batch_args.items())])
        check_call(f"{self.flag}, called with ({called})", self.make, batch_size, **model.batch_args)
        self.count_samples = import_path("model.samples", model.samples) if model.samples else None
        self.count_tokens = import_path("model.tokens", model.tokens) if model.tokens else None

    def __call__(self) -> Any:
        """Makes a new batch in host memory. Raises UserError if the user's function returns something unusable."""
        batch = self.make(self.batch_size, **self.batch_args)
        if any(tensor.device.type != "cpu" for tensor in tensors_of(f"{self.flag}: should return", batch)):
            raise UserError(
                f"{self.flag}: should return tensors on the CPU; accelbench moves them to the device"
            )
        batch = mapped(batch, self._cast)
        num_samples = self.count(batch)
        self.num_counted = self.num_counted or num_samples
        self.num_samples += num_samples
        if self.count_tokens is not None:
            self.num_tokens += counted("model.tokens", self.count_tokens, batch)
        return batch

    @property
    def tokens_per_sample(self) -> float | None:
        """The mean number of tokens per sample in all batches. It is None if tokens are not counted."""
        return None if self.count_tokens is None else self.num_tokens / self.num_samples

    def _cast(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        cast = tensor.detach().to(self.dtype)
        is_image = self.channels_last and cast.layout == torch.strided and cast.dim() == 4
        return cast.contiguous(memory_format=torch.channels_last) if is_image else cast

    def count(self, batch: Any) -> int:
        """Returns the number of samples in a batch. If the user has set `model.samples`, that function counts them.

        If it is not set, each row of the first tensor is a sample. Raises UserError if there are not `batch_size` rows.
        """
        if self.count_samples is not None:
            return counted("model.samples", self.count_samples, batch)
        first = next(tensors_in(batch))
        if not first.dim() or first.size(0) != self.batch_size:
            size = f"{first.size(0)} rows" if first.dim() else "no dimension"
            raise UserError(
                f"{self.flag}: was called for {self.batch_size} samples, but the first tensor of its batch has {size}. "
                "If a row is not a sample, set model.samples=pkg.function, which counts the samples of a batch"
            )
        return self.batch_size


def counted(flag: str, function: Callable[..., Any], batch: Any) -> int:
    """Returns the result of the user's `function` for a batch. Raises UserError if it is not an integer above 0."""
    value = function(batch)
    num = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    if not isinstance(num, int) or isinstance(num, bool) or not 0 < num <= MAX_COUNT:
        shown = beginning(one_line(repr(value)), MAX_SHOWN)
        raise UserError(f"{flag}: should return a whole number above 0, not {shown}")
    return num


class TokenMaker:
    """Makes batches of random token ids.

    No token is padding or the end of a text, because networks treat such tokens differently. But for an encoder-decoder
    network, the last token of a sequence is the end of a text. A sequence has `length` tokens; if `length` is None, it
    has `model.batch_args.seq_len` tokens. A batch has an attention mask of ones, but a batch of prompts has no mask.

    In training, a batch has labels, from which the network computes its loss. Labels are class indices or token ids,
    as the task needs them.

    Raises UserError if a sequence has more tokens than the network accepts.
    """

    def __init__(self, cell: Cell, batch_size: int, length: int | None = None) -> None:
        self.task = cell.model.task
        self.mode = cell.mode
        self.batch_size = batch_size
        self.num_counted = batch_size
        self.config = zoo.config_of(cell.model)
        config = self.config
        self.tokens_per_sample: int = length or cell.model.batch_args["seq_len"]
        flag = f"model.batch_args.seq_len={self.tokens_per_sample}"
        num = self.tokens_per_sample
        if cell.mode == Mode.generate:
            num = cell.generate.prompt_tokens + cell.generate.new_tokens
            flag = f"generate.prompt_tokens and generate.new_tokens: together {num}"
        most = getattr(config, "max_position_embeddings", None)
        if isinstance(most, int) and 0 < most < num:
            raise UserError(
                f"{flag}: {cell.model.definition} accepts at most {most} tokens: use fewer tokens"
            )
        self.end = _ids(config, "eos_token_id")
        special = {*_ids(config, "pad_token_id"), *self.end}
        self.usable = torch.tensor([token for token in range(config.vocab_size) if token not in special])

    def __call__(self) -> dict[str, Tensor]:
        """Makes another batch, in host memory."""
        num, length = self.batch_size, self.tokens_per_sample
        ids = self.usable[torch.randint(len(self.usable), (num, length))]
        if self.config.is_encoder_decoder and self.end:
            ids[:, -1] = self.end[0]  # encoder-decoder networks classify the token at the end of a text
        batch = {"input_ids": ids}
        if self.mode != Mode.generate:  # prompts have no padding, so they need no mask
            batch["attention_mask"] = torch.ones_like(ids)
        if self.mode == Mode.train:
            batch["labels"] = self._labels(ids)
        return batch

    def _labels(self, ids: Tensor) -> Tensor:
        if self.task == Task.causal_lm:
            return ids.clone()
        if self.task == Task.masked_lm:
            labelled = torch.rand(ids.shape) < LABELLED
            labelled[:, 0] = True  # a batch without labels would have no loss
            return torch.where(labelled, ids, NO_LABEL)
        return torch.randint(self.config.num_labels, (len(ids),))


def _ids(config: Any, name: str) -> list[int]:
    """Returns the token ids in the field `name` of the configuration. The field may be missing, one id, or a list."""
    ids = getattr(config, name, None)
    if ids is None:
        return []
    return [ids] if isinstance(ids, int) else list(ids)


class OwnTask:
    """The task of a network on batches of any structure.

    It has the methods `infer`, `train` and `num_samples` of `module.ImageTask`.

    If a batch is a tensor, it is the only argument of `forward`. If it is a tuple or list, its items are the positional
    arguments. If it is a mapping, `forward` gets the entries that `model.inputs` names, as keyword arguments. If
    `model.inputs` is empty, it gets all entries that it accepts. The loss gets the whole batch. Each batch has
    `num_counted` samples.

    Raises UserError if the first batch lacks a key of `model.inputs`, or has no key that `forward` accepts.
    """

    def __init__(self, network: nn.Module, workload: "OwnWorkload", loss: Loss | None = None) -> None:
        model = workload.cell.model
        self.loss, self.num_counted = loss, workload.num_counted
        self.flag = f"model.loss={model.loss}"
        self._is_checked = False
        self.keys: Sequence[str] | None = None
        if isinstance(workload.first, Mapping):
            self.keys = _keys_of_network(network, list(workload.first), model)
        elif model.inputs:
            raise UserError("model.inputs: the batch has no keys: remove model.inputs")

    def infer(self, network: nn.Module, batch: Any) -> Any:
        if self.keys is not None:
            return network(**{key: batch[key] for key in self.keys})
        return network(*batch) if isinstance(batch, tuple | list) else network(batch)

    def train(self, network: nn.Module, batch: Any) -> tuple[Any, Tensor]:
        assert self.loss is not None, "training has a loss"
        output = self.infer(network, batch)
        loss = self.loss(output, batch)
        if not self._is_checked:
            if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
                raise UserError(
                    f"{self.flag}: should return a scalar tensor that depends on trainable parameters"
                )
            self._is_checked = True
        return output, loss

    def num_samples(self, batch: Any) -> int:
        return self.num_counted


def _keys_of_network(network: nn.Module, keys: Sequence[str], model: ModelSpec) -> Sequence[str]:
    """Returns `model.inputs` or, if this is empty, those `keys` of a batch that the network's `forward` accepts."""
    named, takes_any = _arguments(network)
    of_network = model.inputs or [key for key in keys if takes_any or key in named]
    if not of_network or set(of_network) - set(keys):
        has = ", ".join(map(str, keys))
        takes = ", ".join(model.inputs or named) or "nothing"
        flag = f"model.batch={model.batch}" if model.batch else "batch"
        raise UserError(
            f"{flag}: has {has}, but the network needs {takes}: name its keys like forward's arguments"
        )
    return of_network


def _arguments(network: nn.Module) -> tuple[list[str], bool]:
    """Returns the names of the arguments of `forward`, and whether `forward` accepts arbitrary names (`**kwargs`)."""
    if isinstance(network, zoo.Modeless):
        network = network.network
    try:
        parameters = inspect.signature(network.forward).parameters.values()
    except ValueError:  # a frozen module of TorchScript has no signature, and gets all entries
        return [], True
    named = [item.name for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)]
    return named, any(item.kind == item.VAR_KEYWORD for item in parameters)


class BaseWorkload:
    """What most workloads have in common. `network_and_data.Images` describes the other methods."""

    task: Any
    joined: Callable[[Sequence[Any]], Any] = staticmethod(structure.joined)

    def check_first(self, output: object) -> None:
        """Accepts any output."""

    def task_in(self, dtype: torch.dtype) -> Any:
        """The task for a network whose weights have `dtype`."""
        return self.task

    def tokens_per_sample(self) -> float | None:
        """Returns the mean number of tokens per sample. Returns None if tokens are not counted."""
        return None

    def notes(self) -> Iterator[str]:
        """Yields notes on the network and its batches."""
        yield from ()


class OwnWorkload(BaseWorkload):
    """A network on the user's batches."""

    task: OwnTask  # set by `build`

    def __init__(self, cell: Cell, backend: Backend, ranks: Ranks) -> None:
        self.cell = cell
        self.num_samples = num = cell.batch_size // ranks.num
        self.maker = self._maker(num)
        seed_generators(cell.seed + RANK_SEEDS * ranks.part[0])
        pipeline = cell.data.pipeline
        self.feed = DrawnFeed(
            self.maker,
            num,
            fresh=pipeline == Pipeline.fresh,
            put=backend.put if pipeline == Pipeline.device else None,
            pinned=pins(cell, backend),
            count=self.maker.count if isinstance(self.maker, BatchMaker) and cell.model.samples else None,
        )
        self.first = self.feed.batches[0]
        self.num_counted = self.maker.num_counted

    def _maker(self, num: int) -> BatchMaker | TokenMaker:
        return BatchMaker(self.cell, num)

    def _task(self, network: nn.Module) -> OwnTask:
        loss = None
        if path := self.cell.model.loss:
            loss = import_path("model.loss", path)
            check_call(f"model.loss={path}, called with (output, batch)", loss, None, None)
        return OwnTask(network, self, loss)

    def build(self) -> nn.Module:
        seed_generators(self.cell.seed)
        network = zoo.build(self.cell.model, (), 0)
        self.task = self._task(network)

        def run(lazy: nn.Module) -> None:
            self.task.infer(lazy, mapped(self.example(), lambda tensor: cast_tensor(tensor, torch.float32)))

        return zoo.materialised(network, run)

    def feed_of(self, split: str) -> DrawnFeed:
        return self.feed  # the user's batches have no splits

    def requests(self, num: int) -> list[Any]:
        """Returns at most `num` one-sample batches. Raises UserError if they can't be joined into a larger batch."""
        make = self._maker(1)
        model = self.cell.model
        pool = [make() for _ in range(min(num, NUM_DRAWN))]
        if model.collate:
            self.joined = import_path("model.collate", model.collate)
            tensors_of(f"model.collate={model.collate}: should return", self.joined(pool))
        elif self.num_samples > 1:
            fits = False
            with suppress(RuntimeError):  # raised if their other dimensions differ
                fits = have_rows(structure.joined(pool), len(pool)) and have_rows(
                    self.first, self.num_counted
                )
            if not fits:
                raise UserError(
                    f"model.batch={model.batch}: single samples can't be joined along the first dimension of each "
                    "tensor: set model.collate=pkg.function, which joins them"
                )
        return pool

    def example(self) -> Any:
        return mapped(self.first, Tensor.cpu)

    def unseen(self) -> tuple[Any, bool]:
        """Makes a batch that the measured network never got. Also returns whether this was possible.

        The batch is made with a new random seed. If a measured batch has the same numbers, `structure.varied` changes
        the new batch.
        """
        seed_generators(SystemRandom().randrange(2**31, 2**32))
        # A new maker, because the tokens of this batch must not count.
        unseen = self._maker(self.num_samples)()
        if not any(is_same(mapped(batch, Tensor.cpu), unseen) for batch in self.feed.batches):
            return unseen, True
        other = varied(unseen)
        return (unseen, False) if other is None else (other, True)

    def tokens_per_sample(self) -> float | None:
        return self.maker.tokens_per_sample


class TransformersWorkload(OwnWorkload):
    """A network of the library transformers. In training, the network gets labels and computes the loss."""

    def _maker(self, num: int) -> TokenMaker:
        return TokenMaker(self.cell, num)

    def _task(self, network: nn.Module) -> OwnTask:
        self.config: Any = network.config
        return OwnTask(network, self, lambda output, _: output.loss)

    def notes(self) -> Iterator[str]:
        yield f"transformers' attention: {getattr(self.config, '_attn_implementation', None)}"
