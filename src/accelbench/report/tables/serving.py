"""How many requests per second each setting answers within its limit."""

from collections.abc import Callable, Sequence

from accelbench.answers.serving import Capacity
from accelbench.report.tables.table import Column, Table, number, percent, tabulate_known
from accelbench.schema.record import Value

NOTE = (
    "From: the highest rate with a sure pass that another one, there or above, confirms (likely: none did); to: the "
    "lowest with a sure fail. The other figures are of the lower rate. Latency counts from when a request was due."
)


def _at_low(column: str) -> Callable[[Capacity], Value]:
    """A column of a sure pass at the lower rate; None without one."""
    return lambda capacity: capacity.at_low[0].process.row[column] if capacity.at_low else None


COLUMNS: list[Column[Capacity]] = [
    Column("setting", lambda capacity: capacity.setting),
    Column("requests/s: from", lambda capacity: capacity.low, number),
    Column("to", lambda capacity: capacity.high, number),
    Column("p50 (ms)", _at_low("request_p50_ms"), number),
    Column("p90 (ms)", _at_low("request_p90_ms"), number),
    Column("p99 (ms)", _at_low("request_p99_ms"), number),
    Column("mean batch", _at_low("mean_batch"), number),
    Column("busy (%)", _at_low("busy_share"), percent),
    Column("J/request", _at_low("energy_j_per_request"), number),
    Column("cost of a million", _at_low("cost_per_million_requests"), number),
    Column("how sure", lambda capacity: capacity.how_sure),
]


def table(found: Sequence[Capacity]) -> Table | None:
    """A line for each setting of a workload, the best first."""
    return tabulate_known("Each setting, at the lower of its rates", COLUMNS, found, [NOTE])
