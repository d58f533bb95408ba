"""What an engine gives the clock: one step of the workload in its timed parts, and the processes that run it."""

from typing import Any, Protocol, runtime_checkable


class Step(Protocol):
    """One step of a workload, in the parts that are timed. The type of a batch is the engine's choice."""

    def fetch(self) -> Any:
        """Returns the next batch, in host memory."""

    def copy_in(self, batch: Any) -> Any:
        """Copies the batch to the device; may return before the copy is done."""

    def compute(self, batch: Any) -> Any:
        """Launches the computation and returns its result; may return before the computation is done."""

    def copy_out(self, result: Any) -> None:
        """Copies the result to the host; returns when the copy is done."""

    def num_samples(self, batch: Any) -> int:
        """Number of samples in the batch, summed over all processes that compute a part of it."""


@runtime_checkable
class CountingStep(Protocol):
    """A step whose batches may differ in size, such as the last one of an epoch."""

    def samples_of_last(self, num_steps: int) -> int:
        """Samples in the batches of the last steps together."""


class RankGroup:
    """The processes (ranks) that compute a cell together. This base class is a group of one process.

    The clock runs in the first rank, which decides how many steps all ranks run.
    """

    def begin(self, num_steps: int) -> None:
        """Has the other ranks run `num_steps` steps, each on its part of every batch."""

    def end(self) -> None:
        """Returns when every rank has finished its steps, so that a time includes the slowest rank."""


ONE_RANK = RankGroup()
