"""The parts of a batch that Lightning's loop runs: what it calls of its strategy and of the module."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

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
