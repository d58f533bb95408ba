"""A step, as the clock times it: one execution of Keras' compiled function."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from accelbench.engines.keras.backends import Backend, Execute


class ExecutionStep:
    """One call of a compiled function, which runs `engine.steps_per_execution` steps.

    Args:
        execute: the function.
        executions: the batches, one item per execution.
        backend: the device.
        num_samples: per execution, apart from a short last one.
        copies_out: whether the result is copied to the host, as a prediction is.
    """

    def __init__(
        self, execute: Execute, executions: Iterator[Any], backend: Backend, num_samples: int, *, copies_out: bool
    ) -> None:
        self.executions = executions
        self.copies_out = copies_out and not backend.on_host
        self.compute = execute
        self.copy_in = _unchanged if backend.on_host else backend.copy_in
        self._num_samples = num_samples

    def fetch(self) -> Any:
        """The next execution's batches, on the host."""
        return next(self.executions)

    def copy_out(self, result: Any) -> None:
        """Copies the outputs to the host."""
        if self.copies_out:
            np.asarray(result)

    def num_samples(self, batch: Any) -> int:
        """Samples in one execution."""
        return self._num_samples


def _unchanged(batch: Any) -> Any:
    return batch
