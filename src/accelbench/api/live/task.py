"""A user's batch and loss, as objects: which parts of the batch the network takes, and how it is trained."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.lightning.own.batch import OwnBatch
from accelbench.engines.lightning.own.task import OwnTask, taken_keys
from accelbench.engines.lightning.structure import mapped, tensors_in
from accelbench.errors import UserError


def own_batch(batch: Any, samples: int | None, dtype: torch.dtype, device: torch.device) -> OwnBatch:
    """A copy of the user's batch.

    Args:
        batch: a tensor, a tuple or a mapping of tensors, perhaps nested.
        samples: in it; None for the first dimension of its first tensor.
        dtype: of its floating-point tensors.
        device: of the copy.

    Raises:
        UserError: it is no such batch, or the number of samples is unknown.
    """
    tensors = list(tensors_in(batch))
    if not isinstance(batch, Tensor | tuple | list | Mapping) or not tensors:
        raise UserError(f"batch: should be a tensor, a tuple or a mapping of tensors, not a {type(batch).__name__}")
    if samples is None:
        if not tensors[0].dim() or not len(tensors[0]):
            shape = tuple(tensors[0].shape)
            raise UserError(f"samples: its number is unknown, since the batch's first tensor has the shape {shape}")
        samples = len(tensors[0])

    def copied(tensor: Tensor) -> Tensor:
        kept = dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.detach().to(device=device, dtype=kept, copy=True)

    return OwnBatch(mapped(batch, copied), samples)


class LiveTask(OwnTask):
    """A network on the user's batch; see `OwnTask`.

    Args:
        network: whose `forward` is looked at.
        batch: the batch.
        loss: of (output, batch); None in inference.

    Raises:
        UserError: the batch is a mapping, and `forward` takes no key of it.
    """

    def __init__(self, network: nn.Module, batch: OwnBatch, loss: Callable[[Any, Any], Tensor] | None) -> None:
        self.flag, self.loss = "loss", loss
        self._is_checked = False
        content = batch.content
        self.keys = _taken(network, list(content)) if isinstance(content, Mapping) else None
        self.left_out = [] if self.keys is None else [key for key in content if key not in self.keys]


def _taken(network: nn.Module, keys: list[str]) -> list[str]:
    taken, named = taken_keys(network, keys)
    if not taken:
        raise UserError(
            f"batch: it has {', '.join(map(str, keys))}, and forward takes {', '.join(named) or 'nothing'}: name the "
            "entries as its arguments, or pass a tuple"
        )
    return taken


def never_fed(batch: OwnBatch) -> OwnBatch | None:
    """A batch of other inputs of the same kind: the samples, or else their values, change places.

    None if that gives the same batch.
    """
    changes: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda tensor: tensor.roll(1, 0) if tensor.dim() else tensor,
        lambda tensor: tensor.flip(-1) if tensor.dim() else tensor,
    )
    for change in changes:
        other: OwnBatch = mapped(batch, change)
        if not all(torch.equal(*pair) for pair in zip(tensors_in(batch), tensors_in(other), strict=True)):
            return other
    return None
