"""What each option did: cells that differ only in having it, alone and with all others that were tried with it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.cell_columns import SETTINGS
from accelbench.report.tables.options import by_options
from accelbench.report.tables.table import Column, Table, columns_of, number, tabulate_known, word
from accelbench.schema.cell import Options
from accelbench.schema.vocab import Allocator

MIN_CHANGE = 0.05  # two processes of one cell may differ by as much
FASTER, SLOWER, UNCLEAR = "faster", "slower", "can't tell"
NOTE = (
    "Alone: samples/s with the option over those of the plain cell. With others: with all options over those of the "
    "same cell without this one. Each cell is one process: below 5 %, or if their intervals overlap, it can't be told "
    "which is faster; `accelbench compare` can."
)


@dataclass(frozen=True)
class _Pair:
    """Two ok cells, of which only the first one has the option."""

    on: ReportedCell
    off: ReportedCell

    @property
    def gain(self) -> float | None:
        return self.on.over(self.off, "samples_per_s")

    @property
    def verdict(self) -> str:
        first, second = (self.on, self.off) if (self.gain or 1.0) >= 1 else (self.off, self.on)
        low, high = first.number("samples_per_s_low"), second.number("samples_per_s_high")
        overlap = low is not None and high is not None and low <= high
        if self.gain is None or abs(self.gain - 1) < MIN_CHANGE or overlap:
            return UNCLEAR
        return FASTER if self.gain > 1 else SLOWER


@dataclass(frozen=True)
class _Effect:
    """What the option did to a cell, at least in one of the two pairs."""

    option: str
    alone: _Pair | None
    together: _Pair | None

    @property
    def pairs(self) -> dict[str, _Pair]:
        return {
            name: pair for name, pair in (("alone", self.alone), ("with others", self.together)) if pair is not None
        }

    @property
    def cell(self) -> ReportedCell:
        return next(iter(self.pairs.values())).on

    @property
    def others(self) -> str | None:
        return " + ".join(self.together.off.cell.options.enabled) if self.together else None

    @property
    def verdict(self) -> str:
        verdicts = {name: pair.verdict for name, pair in self.pairs.items()}
        if len(set(verdicts.values())) == 1:
            return next(iter(verdicts.values()))
        return ", ".join(f"{name} {verdict}" for name, verdict in verdicts.items())


COLUMNS: list[Column[_Effect]] = [
    *columns_of(lambda effect: effect.cell, SETTINGS, "network", "mode", "device", "precision", "batch"),
    Column("option", lambda effect: word(effect.option)),
    Column("alone (x)", lambda effect: number(effect.alone.gain if effect.alone else None)),
    Column("with others (x)", lambda effect: number(effect.together.gain if effect.together else None)),
    Column("others", lambda effect: word(effect.others)),
    Column("verdict", lambda effect: word(effect.verdict)),
]


def table(sweep: Sweep) -> Table | None:
    """Each option of each cell that was measured with and without it; None without any."""
    effects = list(chain.from_iterable(map(_effects, by_options(sweep).values())))
    slower = [
        f"{effect.option} {name} ({effect.cell.cell.model.name}, {pair.gain:.2f} x)"
        for effect in effects
        for name, pair in effect.pairs.items()
        if pair.verdict == SLOWER
    ]
    notes = [NOTE, *([f"Slower: {', '.join(slower)}."] if slower else [])]
    return tabulate_known("What each option did", COLUMNS, effects, notes)


def _effects(group: Mapping[Options, ReportedCell]) -> Iterator[_Effect]:
    for option in dict.fromkeys(name for options in group for name in options.enabled):
        pairs = [
            _Pair(reported, off)
            for options, reported in group.items()
            if option in options.enabled and (off := group.get(_without(options, option))) is not None
        ]
        several = [pair for pair in pairs if len(pair.on.cell.options.enabled) > 1]
        alone = next((pair for pair in pairs if pair not in several), None)
        together = max(several, key=lambda pair: len(pair.on.cell.options.enabled), default=None)
        if pairs:
            yield _Effect(option, alone, together)


def _without(options: Options, option: str) -> Options:
    changes: dict[str, Any] = {"allocator": Allocator.default} if option in Allocator.__members__ else {option: False}
    return replace(options, **changes)
