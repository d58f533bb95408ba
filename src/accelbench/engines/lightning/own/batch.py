"""Batches that a function of the user makes (`model.batch`), and how a network runs on them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.lightning.module import Loss, Put
from accelbench.engines.lightning.structure import mapped, refilled, tensors_in
from accelbench.engines.targets import check_call, import_path
from accelbench.errors import UserError
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.workload import ModelSpec


@dataclass(frozen=True, slots=True)
class OwnBatch:
    """A batch of the user's."""

    content: Any  # a tensor, tuple or mapping, perhaps nested, as the user's function returned it
    num_samples: int
    num_tokens: int | None = None  # None if nothing says how to count them

    @property
    def num_rows(self) -> int:
        """The first dimension of the first tensor; 0 if that has none."""
        first = next(tensors_in(self.content))
        return len(first) if first.dim() else 0


def put_batch(put: Put, batch: OwnBatch) -> OwnBatch:
    """The batch with the copies that `put` makes of its tensors."""
    return OwnBatch(refilled(batch.content, put(tuple(tensors_in(batch.content)))), batch.num_samples, batch.num_tokens)


class BatchMaker:
    """Makes batches with the user's functions, which `model` names, and checks and casts them.

    Floating-point tensors get the `dtype`, and with `channels_last` the channels innermost in memory if they have 4
    dimensions; others are left as they are. Raises UserError: a function can't be imported.
    """

    def __init__(self, model: ModelSpec, batch_size: int, dtype: torch.dtype, *, channels_last: bool = False) -> None:
        assert model.batch is not None, "the model names the function"
        self.model, self.batch_size, self.dtype, self.channels_last = model, batch_size, dtype, channels_last
        self.flag = f"model.batch={model.batch}"
        self._num_samples: int | None = None
        self.token_counts: list[int] = []  # of the batches for the feed
        self.make = import_path("model.batch", model.batch)
        called = ", ".join(["batch_size", *(f"{name}={value}" for name, value in model.batch_args.items())])
        check_call(f"{self.flag}, called with ({called})", self.make, batch_size, **model.batch_args)
        self.count_samples = import_path("model.samples", model.samples) if model.samples else None
        self.count_tokens = import_path("model.tokens", model.tokens) if model.tokens else None

    def __call__(self) -> OwnBatch:
        """A further batch, in host memory, drawn from torch's generator. Raises UserError: what was made is none."""
        made = self.make(self.batch_size, **self.model.batch_args)
        tensors = list(tensors_in(made))
        if not isinstance(made, Tensor | tuple | list | Mapping) or not tensors:
            raise UserError(f"{self.flag}: should return a tensor, a tuple or a mapping, not {_described(made)}")
        if any(tensor.device.type != "cpu" for tensor in tensors):
            raise UserError(f"{self.flag}: should return tensors on the CPU; accelbench moves them to the device")
        batch = mapped(made, self._cast)
        num_samples = self._samples(batch, tensors[0])
        num_tokens = None if self.count_tokens is None else counted("model.tokens", self.count_tokens, batch)
        if self._num_samples not in (None, num_samples):
            raise UserError(
                f"model.samples={self.model.samples}: counted {self._num_samples} samples in one batch and "
                f"{num_samples} in another: all batches should have as many"
            )
        self._num_samples = num_samples
        if num_tokens is not None:
            self.token_counts.append(num_tokens)
        return OwnBatch(batch, num_samples, num_tokens)

    @property
    def tokens_per_sample(self) -> float | None:
        """Of all batches that were made; None if nothing counts tokens."""
        return fmean(self.token_counts) / self._num_samples if self.token_counts and self._num_samples else None

    def _cast(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        cast = tensor.detach().to(self.dtype)
        is_image = self.channels_last and cast.dim() == 4
        return cast.contiguous(memory_format=torch.channels_last) if is_image else cast

    def _samples(self, batch: Any, first: Tensor) -> int:
        if self.count_samples is not None:
            return counted("model.samples", self.count_samples, batch)
        num = first.shape[0] if first.dim() else 0
        if num != self.batch_size:
            raise UserError(
                f"{self.flag}: was asked for {self.batch_size} samples, and its first tensor has the shape "
                f"{tuple(first.shape)}: its first dimension should be {self.batch_size}, or model.samples counts them"
            )
        return num


def counted(flag: str, function: Callable[..., Any], batch: Any) -> int:
    """What a function of the user counts in a batch; a UserError if it is no whole number above 0."""
    found = function(batch)
    num = found.item() if isinstance(found, Tensor) and found.numel() == 1 else found
    if not isinstance(num, int) or isinstance(num, bool) or not 0 < num <= MAX_COUNT:
        raise UserError(f"{flag}: should return a whole number above 0, not {_described(found)}")
    return num


def count_note(model: ModelSpec, num: int, batch_size: int, num_rows: int) -> str | None:
    """What the user's function counts as samples, if it is not the batch size, or not the number of rows (0: none)."""
    if model.counted_by is None or (num == batch_size and num_rows in (0, num)):
        return None
    batch = f"a batch of {batch_size:,}" if num != batch_size else f"a batch whose first tensor has {num_rows:,} rows"
    return f"{num:,} sample{'s' * (num != 1)} in {batch}{model.counted_by}"


def _described(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {value.numel()} {str(value.dtype).removeprefix('torch.')} numbers"
    kind = f"a {type(value).__name__}"
    return kind + (" without tensors" if isinstance(value, tuple | list | Mapping) else "")


class OwnTask:
    """A network on batches of any structure; see `module.ImageTask`.

    A tensor is the one argument of the network's `forward`, a tuple has its positional ones, a mapping its keywords:
    those that `forward` takes, or those in `model.inputs`. The others go to the loss alone, which is a function of
    (output, batch), or that of `model.loss`. Raises UserError: the first batch has no such keys.
    """

    def __init__(self, model: ModelSpec, network: nn.Module, batch: OwnBatch, loss: Loss | None = None) -> None:
        self.flag = f"model.loss={model.loss}"  # names the loss in messages
        self.loss: Loss | None = import_path("model.loss", model.loss) if model.loss else loss
        if model.loss and self.loss:
            check_call(f"{self.flag}, called with (output, batch)", self.loss, None, None)
        self._is_checked = False
        self.keys: Sequence[str] | None = None
        self.left_out: list[str] = []  # keys that go to the loss alone
        content = batch.content
        if isinstance(content, Mapping):
            self.keys = _keys(model, network, list(content))
            self.left_out = [key for key in content if key not in self.keys]
        elif model.inputs:
            raise UserError(f"model.inputs=[{','.join(model.inputs)}]: goes with a batch that is a mapping")

    def put(self, put: Put, batch: OwnBatch) -> OwnBatch:
        return put_batch(put, batch)

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
            self._check(loss)
            self._is_checked = True
        return output, loss

    def num_samples(self, batch: OwnBatch) -> int:
        return batch.num_samples

    @property
    def division(self) -> str:
        """Who gets which keys of a batch, if the network does not get all; empty if it does."""
        if not self.left_out:
            return ""
        taken, left_out = (", ".join(map(str, keys)) for keys in (self.keys or (), self.left_out))
        return f"the network gets {taken}, and the loss alone gets {left_out}"

    def _check(self, loss: object) -> None:
        if not isinstance(loss, Tensor):
            raise UserError(f"{self.flag}: should return a scalar tensor, not a {type(loss).__name__}")
        if loss.dim():
            raise UserError(f"{self.flag}: should return a scalar tensor, not one of shape {tuple(loss.shape)}")
        if not loss.requires_grad:
            raise UserError(f"{self.flag}: its result depends on no trainable parameter")


def taken_keys(network: nn.Module, keys: list[str]) -> tuple[list[str], list[str]]:
    """The keys of a batch that are arguments of the network's `forward`, and the names of all its arguments."""
    parameters = inspect.signature(network.forward).parameters.values()
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    takes_any = any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters)
    return [key for key in keys if takes_any or key in named], named


def _keys(model: ModelSpec, network: nn.Module, keys: list[str]) -> list[str]:
    if model.inputs:
        if missing := [key for key in model.inputs if key not in keys]:
            raise UserError(f"model.inputs: {', '.join(missing)} is not in the batch, which has {', '.join(keys)}")
        return list(model.inputs)
    taken, named = taken_keys(network, keys)
    if not taken:
        raise UserError(
            f"model.batch={model.batch}: {model.name}.forward takes {', '.join(sorted(named)) or 'nothing'}, and the "
            f"batch has {', '.join(keys)}; model.inputs=[...] names keys for forward(**inputs)"
        )
    return taken
