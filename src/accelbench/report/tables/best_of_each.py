"""What to use, a table for each model and what is done with it: narrow enough for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelbench.report.read import Sweep
from accelbench.report.tables import best
from accelbench.report.tables.first_screen import Recommendation, recommendations
from accelbench.report.tables.table import Column, Table, columns_of, tabulate_known, word
from accelbench.schema.record import Row

NOTE = (
    "Unbeaten: no other cell is at least as good by all criteria that are known of every cell. Of several repeats and "
    "seeds, the one with the middle throughput (the slower of two) is shown. ± is half of the 95 % interval within one "
    "process: accelbench compare decides between cells that are closer than that."
)


@dataclass(frozen=True)
class Best:
    """The best cells of one workload.

    Attributes:
        found: the workload's cells, within the limit.
        chosen: rows of `cells.csv`, with the criteria that each is best by.
    """

    found: Recommendation
    chosen: list[tuple[Row, str]]

    def table(self) -> Table | None:
        """A line for each choice."""
        columns: list[Column[tuple[Row, str]]] = [
            Column("best by", lambda choice: word(choice[1])),
            Column("with", lambda choice: word(self.found.text(choice[0]))),
            *columns_of(lambda choice: choice[0], best.FIGURES, *(column.heading for column in best.FIGURES)),
        ]
        return tabulate_known("", columns, self.chosen)


def of_each(sweeps: Sequence[Sweep], latency_ms: float | None = None) -> tuple[list[Best], list[str]]:
    """The best cells of each workload, and the workloads of which no cell is within the limit.

    Args:
        sweeps: where the cells are.
        latency_ms: the longest median latency; None for no limit.
    """
    found, outside = [], []
    for each in recommendations(sweeps):
        inside = [reported for reported in each.cells if best.is_within(reported.row, latency_ms)]
        if inside:
            recommendation = Recommendation(inside, each.where)
            rows = [reported.row for reported in recommendation.typical]
            found.append(Best(recommendation, best.merged(best.choices(rows))))
        else:
            outside.append(best.workload_text(each.cells[0]))
    return found, outside
