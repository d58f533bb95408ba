"""Computes one speed from the processes of each cell, and compares the speeds of two cells.

The report, the terminal and the Python interface show these numbers.

A cell has a process for each repeat and seed. If the cell has fewer than `MIN_PROCESSES` processes, its speed is their
median speed. Otherwise, its speed is the geometric mean of their speeds, as in `accelbench compare`.

More processes of a cell may run later, to confirm an answer. If there are at least `MIN_PROCESSES` of these, the speed
is computed from these only.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import geometric_mean
from typing import Any

from accelbench.answers.process import PROCESS_SETTINGS, Process
from accelbench.compare.sureness import (
    APART_RATIO,
    BESIDE,
    LIKELY_RATIO,
    MIN_PROCESSES,
    Verdict,
    compare_processes,
    ran_beside_others,
)
from accelbench.compare.sureness import Word as Word
from accelbench.judging.row import warnings_of, without_numbers
from accelbench.presentation import significant
from accelbench.schema.record import Row
from accelbench.schema.serialize import changed, grouped
from accelbench.schema.vocab import Protocol, Provenance
from accelbench.stats.means import mean_interval
from accelbench.stats.order_statistics import median

# Columns of cells.csv: the key of the cell, and the number of processes from which its speed is computed.
CELL, NUM_PROCESSES = "cell", "num_processes"
COUNTS = "counts"  # a column of processes.csv: whether this process is used for the cell's speed
# Columns that grow with the speed, and columns that shrink with it.
WITH_SPEED = ("tokens_per_s", "flops_per_s", "mfu")
AGAINST_SPEED = ("cost_per_million_samples",)


@dataclass(frozen=True, kw_only=True)
class MeasuredCell(Process):
    """A cell, and its speed, which is computed from the processes in `counted`.

    The fields of `Process` are copied from the cell's typical process: the process whose speed is nearest to the cell's
    speed. If no process is ok, they are copied from a process that is not ok.

    `low` and `high` are the ends of the speed's 95 % interval. If the speed is a geometric mean, this is the interval
    of that mean. Otherwise, it spans the intervals of all processes in `counted`.
    """

    processes: Sequence[Process]  # all processes of the cell, from any folder, also those that are not ok
    counted: Sequence[Process] = ()  # the processes from which the speed is computed; empty if none is ok
    speed: float | None = None  # the published samples/s; None if none is ok
    low: float | None = None
    high: float | None = None

    @property
    def num_processes(self) -> int:
        """The number of processes from which the speed is computed."""
        return len(self.counted)

    @property
    def competes(self) -> bool:
        """Is true if answers compare the cell with others.

        Cells without a speed do not compete. The short cells that `best --serve` runs before its probes also do not.
        """
        return bool(self.speed) and not (self.record and self.record.of_search)

    @cached_property
    def row(self) -> Row:
        """The cell's row of `cells.csv`.

        It has the numbers of the typical process, except the speed and the numbers computed from the speed: these are
        the cell's.
        """
        row = super().row | {name: getattr(self.cell, name) for name in PROCESS_SETTINGS}
        if self.is_older:
            row = without_numbers(row)
        row |= {CELL: self.measured_key, NUM_PROCESSES: None}
        typical = row["samples_per_s"]
        if self.speed is None or not isinstance(typical, float):
            return row
        factors = dict.fromkeys(WITH_SPEED, self.speed / typical)
        factors |= dict.fromkeys(AGAINST_SPEED, typical / self.speed)
        for name, provenance in (("time_s", "time_provenance"), ("energy_j_per_sample", "energy_provenance")):
            if row[provenance] == Provenance.estimated:
                factors[name] = typical / self.speed
        for name, factor in factors.items():
            value = row[name]
            if isinstance(value, float):
                row[name] = value * factor
        row |= {"samples_per_s": self.speed, "samples_per_s_low": self.low, "samples_per_s_high": self.high}
        return row | {NUM_PROCESSES: self.num_processes}

    @cached_property
    def judged(self) -> dict[str, dict[str, Any]]:
        """Caches slow comparisons: `measured_key` of the other cell -> fields of the `Gap`."""
        return {}


def cells_of(processes: Iterable[Process]) -> list[MeasuredCell]:
    """Groups processes into cells. The processes may have any outcome, and may come from several sweeps.

    A process was either planned by a sweep, or run later to confirm an answer. Cells without a planned process are left
    out. If several sweeps planned a cell, the result has the cell once for each of these sweeps, with the same numbers.
    If cells differ only in code, weights or data, all of them except the latest are marked as older.
    """
    every = list(processes)
    keys = _keys(every)
    by_cell: dict[str, list[Process]] = defaultdict(list)
    for process, key in zip(every, keys, strict=True):
        by_cell[key].append(process)
    last = {key: max(of_cell, key=lambda process: process.started_at) for key, of_cell in by_cell.items()}
    for history in grouped(last, lambda key: last[key].history_key).values():
        *older, _ = sorted(history, key=lambda key: last[key].started_at)
        for key in older:
            by_cell[key] = [changed(process, is_older=True) for process in by_cell[key]]
    planned = [(process.folder, key) for process, key in zip(every, keys, strict=True) if not process.is_confirming]
    return [_cell(folder, by_cell[key]) for folder, key in dict.fromkeys(planned)]


def process_rows(cells: Iterable[MeasuredCell]) -> Iterator[Row]:
    """Yields a row of `processes.csv` for each process of the cells, with the columns that `cells.csv` has."""
    for cell in cells:
        for process in cell.processes:
            if process.folder == cell.folder:
                yield process.row | {CELL: cell.measured_key, COUNTS: any(process is other for other in cell.counted)}


def _keys(processes: Sequence[Process]) -> list[str]:
    """Returns the key of each process's cell.

    A process that ended before it read its data has no data digest. It gets the key of the latest similar process that
    has one. If no process is similar, it gets its own `measured_key`. A similar process has the same settings, machine,
    packages and code. If the process has no record, a similar one has the same settings and folder.
    """
    key_of: dict[object, str] = {}
    for process in sorted(processes, key=lambda process: (process.data_digest is not None, process.started_at)):
        if process.record is not None:
            key_of[process.ran_key] = key_of[process.folder, process.settings_key] = process.measured_key
    keys = []
    for process in processes:
        like = process.ran_key if process.record else (process.folder, process.settings_key)
        keys.append(process.measured_key if process.data_digest is not None else key_of.get(like, process.measured_key))
    return keys


def _counted(of_cell: Sequence[Process]) -> list[Process]:
    """Returns the processes from which the cell's speed is computed.

    These are all ok processes. But if `MIN_PROCESSES` or more of them confirm an answer, only those are returned.
    """
    # A record may lie in two folders: where it was measured, and where it was merged.
    ok = {
        (process.name, process.started_at): process
        for process in of_cell
        if process.is_ok and process.number("samples_per_s")
    }
    confirming = [process for process in ok.values() if process.is_confirming]
    return confirming if len(confirming) >= MIN_PROCESSES else list(ok.values())


def _cell(folder: str, of_cell: Sequence[Process]) -> MeasuredCell:
    """Returns the cell as a part of the sweep in `folder`. It is ok only if a process in that folder is ok."""
    here = [process for process in of_cell if process.folder == folder and not process.is_confirming]
    ok = [process for process in here if process.is_ok]
    shown = next(iter(ok), None) or next((process for process in here if process.record is not None), here[0])
    typical, figures = shown, dict[str, Any]()
    counted = _counted(of_cell)
    if ok and counted:
        rates = [process.number("samples_per_s") or 0.0 for process in counted]
        speed, low, high = _speed(rates, counted)
        distances = [abs(math.log(rate / speed)) for rate in rates]
        typical = counted[distances.index(min(distances))]
        figures = {"counted": counted, "speed": speed, "low": low, "high": high}
    elif (
        ok and shown.cell.protocol == Protocol.target
    ):  # typical is the seed with the median time; a seed that did not reach the target counts as inf
        by_time = sorted(ok, key=lambda process: process.number("target_s") or math.inf)
        typical = by_time[len(by_time) // 2]
    named = {"cell": shown.cell, "label": shown.label, "words": shown.words, "folder": folder, "is_confirming": False}
    made = object.__new__(MeasuredCell)
    # This copies the cached properties of the typical process, too.
    vars(made).update(vars(typical), **named, **figures, processes=of_cell)
    return made


def _speed(rates: Sequence[float], counted: Sequence[Process]) -> tuple[float, float | None, float | None]:
    """Returns the speed of a cell, and the ends of its interval. The ends are None if they are unknown."""
    if len(rates) >= MIN_PROCESSES:
        low, high = mean_interval(list(map(math.log, rates)))
        return geometric_mean(rates), math.exp(low), math.exp(high)
    ends = [process.number(f"samples_per_s_{end}") for process in counted for end in ("low", "high")]
    known = [value for value in ends if value is not None]
    if known != ends:
        return median(rates), None, None
    return median(rates), min(known), max(known)


@dataclass(frozen=True, kw_only=True)
class Gap:
    """The first cell's speed divided by the second cell's speed, and how sure this ratio is.

    With enough interleaved processes, the ratio is computed from these and has a 95 % interval. Otherwise, it is
    `speed of the first cell / speed of the second cell`, without an interval.
    """

    first: MeasuredCell
    second: MeasuredCell
    ratio: float
    word: Word
    why: str = ""  # reason besides the interval
    low: float | None = None
    high: float | None = None

    @property
    def text(self) -> str:
        """The ratio in words, such as `1.31 times as fast`."""
        return f"{significant(self.ratio)} times as fast"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The 95 % interval of the ratio.

        If the ratio has no interval of its own, it is computed from the intervals of both speeds. None if one of them
        is unknown.
        """
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if not (self.first.low and self.first.high and self.second.low and self.second.high):
            return None
        return self.first.low / self.second.high, self.first.high / self.second.low

    @property
    def how_sure(self) -> str:
        """How sure the ratio is, and why: what makes it doubtful, or else its interval."""
        if self.why or self.low is None or self.high is None:
            return f"{self.word}: {self.why}" if self.why else self.word.value
        return f"{self.word}: {significant(self.low)} to {significant(self.high)} times"

    @property
    def is_interleaved(self) -> bool:
        """Whether the ratio is from interleaved processes."""
        return self.low is not None

    @property
    def is_told(self) -> bool:
        """Is true if one of the cells is surely or likely faster."""
        return self.word in (Word.sure, Word.likely)

    @property
    def is_doubtful(self) -> bool:
        """Whether a number of either cell is in doubt."""
        return any(warnings_of(cell.row) for cell in (self.first, self.second))


def gap(first: MeasuredCell, second: MeasuredCell) -> Gap:
    """Divides the speed of `first` by the speed of `second`. Both cells must have a speed.

    If the two cells are swapped, the ratio becomes its reciprocal, and is equally sure.
    """
    key = second.measured_key
    if key not in first.judged:
        first.judged[key] = _judged(first, second)
    return Gap(first=first, second=second, **first.judged[key])


def _judged(first: MeasuredCell, second: MeasuredCell) -> dict[str, Any]:
    """Divides the first cell's speed by the second cell's speed, and decides how sure this ratio is."""
    sides = [[process.compared for process in cell.counted if process.compared] for cell in (first, second)]
    beside = BESIDE if any(map(ran_beside_others, sides)) else ""
    interleaved = compare_processes(sides[1], sides[0])
    if interleaved.ratio is not None and interleaved.interleaved:
        word = {Verdict.same: Word.same, Verdict.cant_tell: Word.cant_tell}.get(interleaved.verdict(), Word.sure)
        why = "" if word == Word.cant_tell else beside
        word = Word.cant_tell if why else word
        return {"ratio": interleaved.ratio, "word": word, "why": why, "low": interleaved.low, "high": interleaved.high}
    assert first.speed
    assert second.speed
    ratio = first.speed / second.speed
    why = _why_unlikely(first, second, max(ratio, 1 / ratio), beside)
    return {"ratio": ratio, "word": Word.cant_tell if why else Word.likely, "why": why}


def _why_unlikely(first: MeasuredCell, second: MeasuredCell, ratio: float, beside: str) -> str:
    """Returns why a difference is not likely. Empty if it is likely.

    `beside` says that other programs used the CPU. It is empty if none did.
    """
    is_apart = ratio > APART_RATIO
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return beside if is_apart else "too few blocks for an interval"
    if first.low <= second.high and second.low <= first.high:
        return "the intervals overlap"
    if ratio <= LIKELY_RATIO:
        return "within the usual spread between runs"
    return "" if is_apart else beside
