"""Batches that Lightning skips in training, since training_step returned None for them."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accelbench.errors import UserError


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
