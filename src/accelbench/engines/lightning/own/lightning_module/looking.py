"""Looks at one step of Lightning's loop: its batch, and what the module returned for it."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from accelbench.engines.lightning.own.lightning_module.sections import Section, Wrap
from accelbench.engines.lightning.precision import Observer
from accelbench.engines.lightning.structure import tensors_in
from accelbench.schema.vocab import Phase


class Looks:
    """What one step showed.

    Attributes:
        batch: as the loader gave it.
        given: the batch that training_step or predict_step got.
        result: what that returned, detached.
    """

    batch: Any
    given: Any
    loaded: Any = None
    result: Any

    def wrap(self, network: nn.Module, observer: Observer | None) -> Wrap:
        """Keeps what passes through the sections; `observer` also watches the operators of the forward pass."""

        def wrap(phase: Phase, section: Section) -> Section:
            def looked(*args: Any, **kwargs: Any) -> Any:
                if phase == Phase.copy_in:
                    self.batch = args[0]
                    return section(*args, **kwargs)
                self.given = args[0] if args else next(iter(kwargs.values()))
                returned: list[Any] = []
                if observer is None:
                    returned.append(section(*args, **kwargs))
                else:
                    observer.look(network, lambda: returned.append(section(*args, **kwargs)))
                self.result = returned[0]
                return self.result

            return looked if phase in (Phase.copy_in, Phase.forward) else section

        return wrap

    @property
    def rows_left(self) -> tuple[int, int] | None:
        """How many rows of how many training_step or predict_step got, if hooks took some away.

        None if they did not, or if it can't be told: a tensor whose other dimensions are others too, such as one that
        has the time first, or pairs of samples, may hold all of them.
        """
        given = self.batch if self.loaded is None else self.loaded
        shapes = zip(map(_shape, tensors_in(given)), map(_shape, tensors_in(self.given)), strict=False)
        pairs = [(before, after) for before, after in shapes if before and after]
        cropped = [(after[0], before[0]) for before, after in pairs if after[1:] == before[1:] and after[0] < before[0]]
        return cropped[0] if cropped and len(cropped) == len(pairs) else None

    @property
    def loss(self) -> float | None:
        """What training_step returned: a tensor, or the entry `loss` of a mapping; None if it returned none."""
        result = self.result
        loss = result.get("loss") if isinstance(result, Mapping) else result
        return loss.item() if isinstance(loss, Tensor) and loss.numel() == 1 else None


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """Its first dimension, and those of the others that are longer than 1."""
    return (*tensor.shape[:1], *(length for length in tensor.shape[1:] if length > 1))
