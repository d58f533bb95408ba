"""Hooks into what Lightning's loop calls for a batch, of its strategy and of the module: to time, count or look."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from accelbench.engines.lightning.precision import Observer
from accelbench.engines.lightning.structure import tensors_in
from accelbench.errors import UserError
from accelbench.schema.vocab import Phase

# What Lightning's loop calls of its strategy -> the phase that its time belongs to.
OF_STRATEGY = {
    "batch_to_device": Phase.copy_in,
    "training_step": Phase.forward,
    "predict_step": Phase.forward,
    "backward": Phase.backward,
    "optimizer_step": Phase.optimizer,
}
# What it calls of the module, in automatic optimisation.
OF_MODULE = {"optimizer_zero_grad": Phase.optimizer}

Section = Callable[..., Any]
# Makes a section of a phase that is called instead of the given one.
Wrap = Callable[[Phase, Section], Section]


@contextmanager
def wrapped(trainer: Any, wrap: Wrap) -> Iterator[None]:
    """While it is entered, the sections are those that `wrap` makes. Timed steps have no such wrappers."""
    places = [(trainer.strategy, name, phase) for name, phase in OF_STRATEGY.items()]
    places += [(trainer.lightning_module, name, phase) for name, phase in OF_MODULE.items()]
    for owner, name, phase in places:
        vars(owner)[name] = wrap(phase, getattr(owner, name))
    try:
        yield
    finally:
        for owner, name, _ in places:
            del vars(owner)[name]


def marking(mark: Callable[[Phase], None]) -> Wrap:
    """Has `mark` called at the end of each section, and of what its caller did before it.

    In manual optimisation, training_step calls backward and optimiser: what else it does counts as `forward`. In
    automatic optimisation the optimiser calls training_step and backward: what else it does, such as clipping, counts
    as `optimizer`. What is in no section is `framework`.
    """
    running = [Phase.framework]

    def wrap(phase: Phase, section: Section) -> Section:
        def marked(*args: Any, **kwargs: Any) -> Any:
            mark(running[-1])
            running.append(phase)
            try:
                return section(*args, **kwargs)
            finally:
                mark(running.pop())

        return marked

    return wrap


def counting(counter: TorchDispatchMode) -> Wrap:
    """Has `counter` entered during the sections that compute: neither in the loader nor in copies to the device."""
    depth = 0

    def wrap(phase: Phase, section: Section) -> Section:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            if depth or phase == Phase.copy_in:
                return section(*args, **kwargs)
            depth += 1
            try:
                with counter:
                    return section(*args, **kwargs)
            finally:
                depth -= 1

        return counted

    return wrap


class StepProbe:
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


class Skipped:
    """Notes the steps in which training_step returned None, in automatic optimisation.

    Lightning warns of each such batch, and of no other one: this stands in for what it warns with, so that a step that
    trains takes no longer.

    Args:
        num_steps: counts the steps that were run so far.
    """

    def __init__(self, num_steps: Callable[[], int]) -> None:
        self._num_steps = num_steps
        self._steps: set[int] = set()

    def warn(self, *args: Any, **kwargs: Any) -> None:
        """Called by Lightning."""
        self._steps.add(self._num_steps())

    @contextmanager
    def noted(self, package: str) -> Iterator[None]:
        """While it is entered, steps are noted; `package` is that of the Trainer."""
        closure = importlib.import_module(f"{package}.loops.optimization.automatic").Closure
        before, closure.warning_cache = closure.warning_cache, self
        try:
            yield
        finally:
            closure.warning_cache = before

    def defects(self, flag: str, start: int, end: int) -> list[str]:
        """A sentence if any step from `start` until before `end` was skipped: its time is not that of a training step.

        Args:
            flag: names the module in the error.
            start: the first step.
            end: the step after the last one.

        Raises:
            UserError: all were skipped, so that nothing is known of the network.
        """
        num = sum(start <= step < end for step in self._steps)
        if num == end - start:
            raise UserError(f"{flag}: training_step returned None in every step, so that Lightning trained nothing")
        found = f"training_step returned None in {num} of {end - start} measured steps: Lightning trains nothing then"
        return [found] if num else []
