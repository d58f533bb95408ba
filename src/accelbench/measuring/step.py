"""What an engine gives the clock: a step in its timed parts, and the processes that take it together."""

from typing import Any, Protocol


class Step(Protocol):
    """One step of a workload, in the parts that are timed. Batches are the engine's own."""

    def fetch(self) -> Any:
        """Gets the next batch on the host."""

    def copy_in(self, batch: Any) -> Any:
        """Moves it to the device; may return before that is done."""

    def compute(self, batch: Any) -> Any:
        """Launches the computation and returns its result; may return before that is done."""

    def copy_out(self, result: Any) -> None:
        """Moves the result to the host, and returns when it is there."""

    def num_samples(self, batch: Any) -> int:
        """How many samples the batch holds, over all processes that compute it."""


class RankGroup:
    """The processes that compute a cell: here there is but this one. An engine that has more extends it.

    The clock runs in the first process alone, and decides there how many steps are taken.
    """

    def begin(self, num_steps: int) -> None:
        """Has the other processes take so many steps, each with its share of every batch, as this one then does."""

    def end(self) -> None:
        """Returns when they have: what is timed is over when the slowest is done."""


ONE_RANK = RankGroup()
