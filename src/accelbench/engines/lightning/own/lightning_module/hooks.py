"""Hooks into what Lightning's loop calls for a batch, of its strategy and of the module: to time, count or look."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from accelbench.engines.lightning.precision import Observer
from accelbench.engines.lightning.structure import tensors_in
from accelbench.schema.vocab import Phase

# What Lightning's loop calls of its strategy, and of the module in automatic optimisation -> the phase of its time.
OF_STRATEGY = {
    "batch_to_device": Phase.copy_in,
    "training_step": Phase.forward,
    "predict_step": Phase.forward,
    "backward": Phase.backward,
    "optimizer_step": Phase.optimizer,
}
PHASES = {**OF_STRATEGY, "optimizer_zero_grad": Phase.optimizer}
LOADED = "_on_before_batch_transfer"  # of the module: gets each batch as the loader gave it

Section = Callable[..., Any]
# Makes a section, by its name, that is called instead of the given one.
Wrap = Callable[[str, Section], Section]


@contextmanager
def wrapped(trainer: Any, wrap: Wrap) -> Iterator[None]:
    """While it is entered, the sections are those that `wrap` makes. Timed steps have no such wrappers."""
    module = trainer.lightning_module
    places = [(trainer.strategy if name in OF_STRATEGY else module, name) for name in (*PHASES, LOADED)]
    for owner, name in places:
        vars(owner)[name] = wrap(name, getattr(owner, name))
    try:
        yield
    finally:
        for owner, name in places:
            del vars(owner)[name]


def marking(step: Any) -> Wrap:
    """Has `step.mark` called at the end of each section, and of what its caller did before it.

    In manual optimisation, training_step calls backward and optimiser: what else it does counts as `forward`. In
    automatic optimisation the optimiser calls training_step and backward: what else it does, such as clipping, counts
    as `optimizer`. What is in no section is `framework`.
    """
    running = [Phase.framework]

    def wrap(name: str, section: Section) -> Section:
        def marked(*args: Any, **kwargs: Any) -> Any:
            step.mark(running[-1])
            running.append(PHASES[name])
            try:
                return section(*args, **kwargs)
            finally:
                step.mark(running.pop())

        return marked if name in PHASES else section

    return wrap


def counting(counter: TorchDispatchMode) -> Wrap:
    """Has `counter` entered during the sections that compute: neither in the loader nor in copies to the device."""
    depth = 0

    def wrap(name: str, section: Section) -> Section:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            if depth:
                return section(*args, **kwargs)
            depth += 1
            try:
                with counter:
                    return section(*args, **kwargs)
            finally:
                depth -= 1

        return section if name in (LOADED, "batch_to_device") else counted

    return wrap


class StepProbe:
    """What one step showed: its batch as the loader gave it, as it was copied, as a step got it, and the result."""

    loaded: Any
    batch: Any
    given: Any
    result: Any

    def wrap(self, network: nn.Module, observer: Observer | None) -> Wrap:
        """Keeps what passes through the sections; `observer` also watches the operators of the forward pass."""

        def wrap(name: str, section: Section) -> Section:
            def looked(*args: Any, **kwargs: Any) -> Any:
                if name == LOADED:
                    self.loaded = args[0]
                elif name == "batch_to_device":
                    self.batch = args[0]
                else:
                    self.given = args[0] if args else next(iter(kwargs.values()))
                returned: list[Any] = []
                if observer is None or name in (LOADED, "batch_to_device"):
                    returned.append(section(*args, **kwargs))
                else:
                    observer.look(network, lambda: returned.append(section(*args, **kwargs)))
                self.result = returned[0]  # at last that of the step
                return returned[0]

            return looked if name in (LOADED, "batch_to_device", "training_step", "predict_step") else section

        return wrap

    @property
    def rows_left(self) -> tuple[int, int] | None:
        """How many rows of how many training_step or predict_step got, if hooks took some away.

        None if they did not, or if it can't be told: a tensor whose other dimensions are others too, such as one that
        has the time first, or pairs of samples, may hold all of them.
        """
        shapes = zip(map(_shape, tensors_in(self.loaded)), map(_shape, tensors_in(self.given)), strict=False)
        pairs = [(before, after) for before, after in shapes if before and after]
        cropped = [(after[0], before[0]) for before, after in pairs if after[1:] == before[1:] and after[0] < before[0]]
        return cropped[0] if cropped and len(cropped) == len(pairs) else None

    @property
    def loss(self) -> float | None:
        """What training_step returned: a tensor, or the entry `loss` of a mapping; None if it returned none."""
        loss = self.result.get("loss") if isinstance(self.result, Mapping) else self.result
        return loss.item() if isinstance(loss, Tensor) and loss.numel() == 1 else None


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """Its first dimension, and those of the others that are longer than 1."""
    return (*tensor.shape[:1], *(length for length in tensor.shape[1:] if length > 1))


@contextmanager
def noting_skipped(package: str, num_steps: Callable[[], int]) -> Iterator[set[int]]:
    """While it is entered, notes the steps in which training_step returned None, in automatic optimisation.

    Lightning, of this package, warns of each such batch, and of no other one: this stands in for what it warns with, so
    that a step that trains takes no longer.
    """
    closure = importlib.import_module(f"{package}.loops.optimization.automatic").Closure
    steps: set[int] = set()
    before, closure.warning_cache = closure.warning_cache, SimpleNamespace(warn=lambda *_: steps.add(num_steps()))
    try:
        yield steps
    finally:
        closure.warning_cache = before
