"""What an engine gives so that its outputs can be compared with those of a newly built network."""

import time
from collections.abc import Hashable, Sequence
from typing import Any

from accelbench.engines.sources import Shape
from accelbench.measuring.output_check import (
    NUM_ROWS,
    Output,
    Outputs,
    References,
    by_axis,
    in_time,
    limit,
    random_order,
    random_rows,
)
from accelbench.measuring.promises import Observations
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import QUANTIZED, Precision

# The share of a cell's time limit after which its output is not compared any more: running into the limit would lose
# the record. The rest is for what comes before a `CellRun`, such as starting a device, and after it.
MAX_UNTIL_CHECKED = 0.9
ROUNDS_ALIKE = {
    Precision.fp32: Precision.fp64,
    Precision.tf32: Precision.bf16_mixed,  # no CPU has it: bf16 rounds to fewer bits
}


class ComparedOutputs:
    """The part of `cell_run.CellRun` that compares outputs. An engine fills the methods that raise NotImplementedError.

    Attributes:
        outputs: of the network that was measured.
        rows: that are compared, once they were drawn.
        timed: a batch of a timed step, and its output, if one was kept that can be compared.
    """

    seen: Observations
    num_reference_rows = NUM_ROWS
    """How many of `rows` `reference_outputs` gives, the first ones."""
    has_same_reference = False
    """Whether `reference_outputs` rounds as what was measured does, if it runs in the cell's precision."""
    same_random = False
    """Whether a seed gives the network that was measured and a newly built one the same random numbers."""

    def __init__(self, cell: Cell) -> None:
        self._began_s = time.monotonic()
        self.cell = cell
        self.outputs: Outputs | None = None
        self.rows: list[int] = []
        self.timed: tuple[Any, Output | None] | None = None

    @property
    def rounds_alike(self) -> Precision | None:
        """A precision in which `reference_outputs` shows what rounding does; see `References.rounded`."""
        precision = self.cell.precision
        return None if precision in QUANTIZED else ROUNDS_ALIKE.get(precision, precision)

    def compared_inputs(self) -> tuple[Any, Any]:
        """A batch that was fed, that of `timed` if there is one, and one that the feed never gives."""
        raise NotImplementedError

    def seed_output(self, number: int) -> None:
        """Seeds the random numbers that the next output is computed with, as `reference_outputs` does its batches'."""

    def reordered_inputs(self, batch: Any, order: Sequence[int]) -> Any:
        """The batch whose sample i is sample `order[i]` of `batch`; None if that can't be made."""
        return None

    def mixed_inputs(self, batch: Any, other: Any, rows: Sequence[int]) -> Any:
        """The batch with these samples of another one; None if it has no others, or that can't be made."""
        return None

    def inputs_of_rows(self, batch: Any, rows: Sequence[int]) -> Sequence[Hashable] | None:
        """What the network gets for each of these samples of a batch; None if no two samples ever have the same."""
        return None

    def measured_output(self, batch: Any, rows: Sequence[int]) -> Output:
        """The output of what was timed for a batch, which is made as large as a whole step, with these of its rows."""
        raise NotImplementedError

    def reference_outputs(
        self, batches: Sequence[Any], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        """The outputs of a newly built network for each of `batches`, in fp32 on the CPU, with the first of `rows`.

        Args:
            batches: as `compared_inputs` returns them; for the i-th one, random numbers are seeded as
                `seed_output(i % 2)` does.
            other: whether it has other weights than the network that was measured.
            precision: that it runs in instead of fp32.
        """
        raise NotImplementedError

    def compute_outputs(self, size: int, shapes: Sequence[Shape] | None) -> None:
        """Computes the outputs that are compared.

        Args:
            size: rows of a step.
            shapes: that the output may have; None if it may be any structure of tensors.
        """
        rows = self.rows_of(size)
        fed, unseen = self.compared_inputs()
        num_changed = -(-len(rows) // 2)
        if (mixed := self.mixed_inputs(unseen, fed, rows[num_changed:])) is None:
            num_changed = len(rows)
        else:
            unseen = mixed
        timed = self.timed[1] if self.timed else None
        of_unseen = self._output(0, unseen)  # as the reference, which gets the unseen inputs first
        moved = None if timed is None else self._moved_output(fed, size)
        if timed is not None and moved is not None and by_axis(timed, moved) <= limit(self.cell.precision):
            of_fed = timed  # no state, random number or place in the batch makes a difference
        else:
            if moved is not None:  # all of them anew, each one call after the other: it may compute at some calls alone
                of_unseen = self._output(0, unseen)
            of_fed = self._output(1, fed)
            moved = self._moved_output(fed, size)

        def inputs_of(batch: Any, num: int) -> Sequence[Hashable]:
            return self.inputs_of_rows(batch, self.rows[:num]) or []

        may_be_same = self.inputs_of_rows(fed, []) is not None
        self.outputs = Outputs(
            (fed, unseen),
            size,
            shapes,
            of_fed,
            of_unseen,
            timed,
            moved,
            num_changed,
            inputs_of if may_be_same else None,
        )

    def _output(self, number: int, batch: Any) -> Output:
        self.seed_output(number)
        return self.measured_output(batch, self.rows)

    def _moved_output(self, batch: Any, size: int) -> Output | None:
        """The output for the batch in another order, put back into its own; None if it can't be moved."""
        order = random_order(size)
        if size == 1 or (reordered := self.reordered_inputs(batch, order)) is None:
            return None
        self.seed_output(1)
        return self.measured_output(reordered, [order.index(row) for row in self.rows])

    def rows_of(self, size: int) -> list[int]:
        """The rows of a step's output that are compared, drawn when they are first needed."""
        self.rows = self.rows or random_rows(size)
        return self.rows

    def references(self) -> References:
        """What the outputs are compared with. It raises a NotInTimeError if the cell would run into its time limit."""

        def run(batches: Sequence[Any], **how: Any) -> list[Output]:
            left_s = self._began_s + MAX_UNTIL_CHECKED * self.cell.timeout_s - time.monotonic()
            return in_time(lambda: self.reference_outputs(batches, **how), left_s)

        return References(
            run,
            self.cell.precision if self.has_same_reference else None,
            self.rounds_alike,
            self.num_reference_rows,
            same_random=self.same_random,
            constant=self.cell.model.constant,
            in_training=any(self.seen.modes),
        )
