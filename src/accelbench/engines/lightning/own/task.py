"""The task of a network on batches of any structure: which parts are its arguments, and its loss."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from accelbench.engines.lightning.own.batch import OwnBatch, put_batch
from accelbench.engines.lightning.task import Loss, Put
from accelbench.engines.targets import check_call, import_path
from accelbench.errors import UserError
from accelbench.schema.workload import ModelSpec


class OwnTask:
    """A network on batches of any structure.

    A tensor is the one argument of the network's `forward`, a tuple has its positional ones, a mapping its keywords:
    those that `forward` takes, or those in `model.inputs`. The others go to the loss alone.

    Args:
        model: of the network.
        network: whose `forward` is looked at.
        batch: the first one.
        loss: of (output, batch); None for that of `model.loss`.

    Raises:
        UserError: a key of `model.inputs` is not in the batch, or `forward` takes no key of it.

    Attributes:
        left_out: keys that go to the loss alone.
    """

    def __init__(self, model: ModelSpec, network: nn.Module, batch: OwnBatch, loss: Loss | None = None) -> None:
        self.flag = f"model.loss={model.loss}"  # names the loss in messages
        self.loss: Loss | None = import_path("model.loss", model.loss) if model.loss else loss
        if model.loss and self.loss:
            check_call(f"{self.flag}, called with (output, batch)", self.loss, None, None)
        self._is_checked = False
        self.keys: Sequence[str] | None = None
        self.left_out: list[str] = []
        content = batch.content
        if isinstance(content, Mapping):
            self.keys = _keys(model, network, list(content))
            self.left_out = [key for key in content if key not in self.keys]
        elif model.inputs:
            raise UserError(f"model.inputs=[{','.join(model.inputs)}]: goes with a batch that is a mapping")

    def put(self, put: Put, batch: OwnBatch) -> OwnBatch:
        """The batch on the device."""
        return put_batch(put, batch)

    def infer(self, network: nn.Module, batch: OwnBatch) -> Any:
        """The network's output."""
        content = batch.content
        if self.keys is not None:
            return network(**{key: content[key] for key in self.keys})
        return network(*content) if isinstance(content, tuple | list) else network(content)

    def train(self, network: nn.Module, batch: OwnBatch) -> tuple[Any, Tensor]:
        """The network's output, and what the user's loss makes of it and of the batch."""
        assert self.loss is not None, "training has a loss"
        output = self.infer(network, batch)
        loss = self.loss(output, batch.content)
        if not self._is_checked:
            self._check(loss)
            self._is_checked = True
        return output, loss

    @property
    def division(self) -> str:
        """Who gets which keys of a batch, if the network does not get all; empty if it does."""
        if not self.left_out:
            return ""
        taken, left_out = (", ".join(map(str, keys)) for keys in (self.keys or (), self.left_out))
        return f"the network gets {taken}, and the loss alone gets {left_out}"

    def num_samples(self, batch: OwnBatch) -> int:
        """The number that was counted when the batch was made."""
        return batch.num_samples

    def _check(self, loss: object) -> None:
        """Raises a UserError if `loss` is nothing that gradients can be computed of."""
        flag = self.flag
        if not isinstance(loss, Tensor):
            raise UserError(f"{flag}: should return a scalar tensor, not a {type(loss).__name__}")
        if loss.dim():
            raise UserError(f"{flag}: should return a scalar tensor, not one of shape {tuple(loss.shape)}")
        if not loss.requires_grad:
            raise UserError(f"{flag}: its result depends on no trainable parameter")


def taken_keys(network: nn.Module, keys: list[str]) -> tuple[list[str], list[str]]:
    """The keys of a batch that are arguments of the network's `forward`, and the names of all its arguments."""
    parameters = inspect.signature(network.forward).parameters.values()
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    takes_any = any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters)
    return [key for key in keys if takes_any or key in named], named


def _keys(model: ModelSpec, network: nn.Module, keys: list[str]) -> list[str]:
    """The keys of a batch that are arguments of the network's `forward`."""
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
