"""Speed against latency in inference: the settings that no other beats in both."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.groups import Group
from accelbench.report.tables.table import Column, Table, count, number, tabulate_known, word
from accelbench.schema.vocab import Mode


@dataclass(frozen=True)
class TradeOff:
    """The inference of one model.

    Attributes:
        cells: those with a known latency, at least two.
        front: those of which no other has both more samples/s and a shorter median step, the fastest first.
    """

    group: Group
    cells: list[MeasuredCell]
    front: list[MeasuredCell]

    @property
    def fastest(self) -> MeasuredCell:
        """The cell with the most samples/s."""
        return self.front[0]

    @property
    def soonest(self) -> MeasuredCell:
        """The cell with the shortest median step."""
        return self.front[-1]

    @property
    def width(self) -> float:
        """How many times as long as the soonest cell's step the fastest cell's takes."""
        return (self.fastest.number("latency_p50_ms") or 1.0) / (self.soonest.number("latency_p50_ms") or 1.0)


COLUMNS: list[Column[tuple[TradeOff, MeasuredCell]]] = [
    Column("model, and what is done", lambda each: word(each[0].group.what)),
    Column("setting", lambda each: word(each[0].group.setting(each[1]))),
    Column("batch", lambda each: count(each[1].cell.batch_size)),
    Column("samples/s", lambda each: number(each[1].number("samples_per_s"))),
    Column("p50 (ms)", lambda each: number(each[1].number("latency_p50_ms"))),
    Column("p99 (ms)", lambda each: number(each[1].number("latency_p99_ms"))),
]


def trade_off(group: Group) -> TradeOff | None:
    """The model's trade-off; None in training, and without two cells of known latency."""
    cells = [each for each in group.cells if each.number("latency_p50_ms")]
    if group.fastest.cell.mode != Mode.infer or len(cells) < 2:
        return None
    front: list[MeasuredCell] = []
    for each in cells:  # the fastest first: each later one has to be sooner done
        if not front or (each.number("latency_p50_ms") or 0.0) < (front[-1].number("latency_p50_ms") or 0.0):
            front.append(each)
    return TradeOff(group, cells, front)


def table(found: Sequence[TradeOff]) -> Table | None:
    """A line for each setting of a front; None without any."""
    pairs = [(each, reported) for each in found for reported in each.front]
    return tabulate_known("Settings that no other beats in both speed and latency", COLUMNS, pairs)
