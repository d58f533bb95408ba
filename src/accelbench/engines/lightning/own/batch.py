"""Batches that a function of the user makes (`model.batch`), and how a network runs on them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.lightning.module import Loss, Put
from accelbench.engines.lightning.precision import STORED_DTYPES
from accelbench.engines.lightning.structure import mapped, refilled, tensors_in
from accelbench.engines.targets import check_call, import_path
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.text import beginning, one_line
from accelbench.schema.workload import ModelSpec

MAX_SHOWN = 60  # characters of what a user's function returned


@dataclass(frozen=True, slots=True)
class OwnBatch:
    """A batch of the user's."""

    content: Any  # a tensor, tuple or mapping, perhaps nested, as the user's function returned it
    num_samples: int

    @property
    def num_rows(self) -> int:
        """The first dimension of the first tensor; 0 if that has none."""
        first = next(tensors_in(self.content))
        return len(first) if first.dim() else 0


def put_batch(put: Put, batch: OwnBatch) -> OwnBatch:
    """The batch with the copies that `put` makes of its tensors."""
    return OwnBatch(refilled(batch.content, put(tuple(tensors_in(batch.content)))), batch.num_samples)


def tensors_of(should: str, batch: Any) -> list[Tensor]:
    """The tensors of a batch; a UserError, which begins with `should`, if it has no tensor."""
    tensors = list(tensors_in(batch))
    if not isinstance(batch, Tensor | tuple | list | Mapping) or not tensors:
        raise UserError(f"{should} a tensor, a tuple or a mapping of tensors, not a {type(batch).__name__}")
    return tensors


def check_joined(flag: str, pool: Sequence[OwnBatch], whole: OwnBatch) -> None:
    """Raises a UserError if batches of one sample can't be joined into one like `whole`, tensor by tensor."""
    shapes = [[tuple(tensor.shape) for tensor in tensors_in(each.content)] for each in pool]
    for index, tensor in enumerate(tensors_in(whole.content)):
        found = sorted({each[index] for each in shapes})
        if len(found) > 1 or found[0][:1] != (1,) or tensor.shape[:1] != (whole.num_samples,):
            told = " and ".join(map(str, [*found[:2], tuple(tensor.shape)]))
            raise UserError(
                f"{flag}: makes tensors of the shapes {told} of one sample and of {whole.num_samples}, which can't be "
                "joined along their first dimension: name a function in model.collate that joins batches of one sample"
            )


class BatchMaker:
    """Makes batches with the user's functions, and checks them. Raises UserError: a function can't be imported.

    Floating-point tensors get the cell's dtype, and with `channels_last` the channels innermost if there are 4 axes.
    """

    def __init__(self, cell: Cell, batch_size: int) -> None:
        self.model, self.batch_size, self.channels_last = cell.model, batch_size, cell.options.channels_last
        self.dtype = STORED_DTYPES[cell.precision]
        self.num_samples, self.num_tokens = 0, 0  # in all batches that were made
        self._counted: int | None = None  # samples in the first batch
        model, self.flag = cell.model, f"model.batch={cell.model.batch}"
        self.make = import_path("model.batch", model.batch or "")
        called = ", ".join(["batch_size", *(f"{name}={value}" for name, value in model.batch_args.items())])
        check_call(f"{self.flag}, called with ({called})", self.make, batch_size, **model.batch_args)
        self.count_samples = import_path("model.samples", model.samples) if model.samples else None
        self.count_tokens = import_path("model.tokens", model.tokens) if model.tokens else None

    def __call__(self) -> OwnBatch:
        """A further batch, in host memory, drawn from torch's generator. Raises UserError: it is no batch."""
        made = self.make(self.batch_size, **self.model.batch_args)
        tensors = tensors_of(f"{self.flag}: should return", made)
        if any(tensor.device.type != "cpu" for tensor in tensors):
            raise UserError(f"{self.flag}: should return tensors on the CPU; accelbench moves them to the device")
        batch = mapped(made, self._cast)
        num_samples = self._count(batch, tensors[0])
        self._counted = self._counted or num_samples
        if num_samples != self._counted:  # the samples of a block are those of a batch, times its steps
            counts = f"counted {self._counted} samples in one batch and {num_samples} in another"
            raise UserError(f"model.samples={self.model.samples}: {counts}: all batches should have as many")
        self.num_samples += num_samples
        if self.count_tokens is not None:
            self.num_tokens += counted("model.tokens", self.count_tokens, batch)
        return OwnBatch(batch, num_samples)

    @property
    def tokens_per_sample(self) -> float | None:
        """Of all batches that were made; None if nothing counts tokens."""
        return None if self.count_tokens is None else self.num_tokens / self.num_samples

    def _cast(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        cast = tensor.detach().to(self.dtype)
        is_image = self.channels_last and cast.dim() == 4
        return cast.contiguous(memory_format=torch.channels_last) if is_image else cast

    def _count(self, batch: Any, first: Tensor) -> int:
        if self.count_samples is not None:
            return counted("model.samples", self.count_samples, batch)
        if first.shape[:1] != (self.batch_size,):
            asked = f"{self.flag}: was asked for {self.batch_size} samples"
            raise UserError(f"{asked}, and its first tensor has the shape {tuple(first.shape)}: see model.samples")
        return self.batch_size


def counted(flag: str, function: Callable[..., Any], batch: Any) -> int:
    """What a function of the user counts in a batch; a UserError if it is no whole number above 0."""
    found = function(batch)
    num = found.item() if isinstance(found, Tensor) and found.numel() == 1 else found
    if not isinstance(num, int) or isinstance(num, bool) or not 0 < num <= MAX_COUNT:
        shown = beginning(one_line(repr(found)), MAX_SHOWN)
        raise UserError(f"{flag}: should return a whole number above 0, not {shown}")
    return num


def count_note(model: ModelSpec, num: int, batch_size: int, num_rows: int) -> str | None:
    """What the user's function counts as samples, if it is not the batch size, or not the number of rows (0: none)."""
    if model.counted_by is None or (num == batch_size and num_rows in (0, num)):
        return None
    batch = f"a batch of {batch_size:,}" if num != batch_size else f"a batch whose first tensor has {num_rows:,} rows"
    return f"{num:,} sample{'s' * (num != 1)} in {batch}{model.counted_by}"


class OwnTask:
    """A network on batches of any structure; see `module.ImageTask`.

    A tensor is the one argument of the network's `forward`, a tuple has its positional ones, a mapping its keywords:
    those that `forward` takes, or `inputs`; the loss gets all. The flags name the batch and the loss in messages.
    Raises UserError: the first batch has no such keys.
    """

    def __init__(
        self,
        network: nn.Module,
        first: OwnBatch,
        loss: Loss | None = None,
        *,
        inputs: Sequence[str] = (),
        batch_flag: str = "batch",
        loss_flag: str = "loss",
    ) -> None:
        self.loss, self.flag = loss, loss_flag
        self._is_checked = False
        self.keys: Sequence[str] | None = None
        self.left_out: list[str] = []  # keys that go to the loss alone
        if isinstance(first.content, Mapping):
            keys = list(first.content)
            self.keys = _taken(network, keys, inputs, batch_flag)
            self.left_out = [key for key in keys if key not in self.keys]
        elif inputs:
            raise UserError("model.inputs: the batch has no keys, leave it out")

    put = staticmethod(put_batch)

    def infer(self, network: nn.Module, batch: OwnBatch) -> Any:
        content = batch.content
        if self.keys is not None:
            return network(**{key: content[key] for key in self.keys})
        return network(*content) if isinstance(content, tuple | list) else network(content)

    def train(self, network: nn.Module, batch: OwnBatch) -> tuple[Any, Tensor]:
        assert self.loss is not None, "training has a loss"
        output = self.infer(network, batch)
        loss = self.loss(output, batch.content)
        if not self._is_checked:
            if not isinstance(loss, Tensor) or loss.dim() or not loss.requires_grad:
                raise UserError(f"{self.flag}: should return a scalar tensor that depends on trainable parameters")
            self._is_checked = True
        return output, loss

    def num_samples(self, batch: OwnBatch) -> int:
        return batch.num_samples


def _taken(network: nn.Module, keys: Sequence[str], inputs: Sequence[str], flag: str) -> Sequence[str]:
    """The keys of a batch that the network gets: `inputs`, or those that its `forward` takes."""
    parameters = inspect.signature(network.forward).parameters.values()
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    takes_any = any(each.kind == each.VAR_KEYWORD for each in parameters)
    taken = inputs or [key for key in keys if takes_any or key in named]
    if not taken or set(taken) - set(keys):
        has, takes = ", ".join(map(str, keys)), ", ".join(inputs or named) or "nothing"
        raise UserError(f"{flag}: has {has}, and the network gets {takes}: name the entries as forward's arguments")
    return taken
