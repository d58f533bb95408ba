"""What was measured, as a Python sequence: of a call of `run`, or read from a folder of records."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from accelbench.answers.cells import MeasuredCell, cells_of
from accelbench.answers.groups import groups
from accelbench.answers.process import Process
from accelbench.answers.ranking import answers
from accelbench.answers.words import workload_text
from accelbench.api import html
from accelbench.errors import UserError
from accelbench.judging.row import warnings_of
from accelbench.presentation import significant
from accelbench.project import workplace
from accelbench.report import read as reading
from accelbench.report.read import Sweep
from accelbench.report.tables import device_scaling
from accelbench.schema.record import Record, Row
from accelbench.schema.record import read as read_record
from accelbench.schema.text import clean
from accelbench.sweep import terminal

MAX_NAMED = 6  # works in a message

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """One cell, and what became of it. Numbers are None if unknown, and of every cell that is not ok.

    The speed is of all its processes (its repeats and seeds), the other numbers of the one that is nearest to it.

    Attributes:
        path: of that process' record; None if the cell has not run yet, or if the record is in another folder.
    """

    _cell: MeasuredCell
    path: Path | None

    @property
    def label(self) -> str:
        """The cell's short name, such as `cnn-cpu-fp32-b128-infer`."""
        return self._cell.label

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, nested as in conf/: `settings["batch_size"]`, `settings["model"]["name"]`."""
        return self._cell.cell.settings()

    @property
    def status(self) -> str:
        """A word of `cells.csv`'s column status, `disturbed`, `not run yet` or `not readable`.

        `disturbed`: other programs took the cores that it needed, so that it has no numbers.
        """
        return self._cell.outcome

    @property
    def is_ok(self) -> bool:
        """Whether the cell was measured, and its numbers are valid."""
        return self._cell.is_ok

    @property
    def reason(self) -> str | None:
        """Why the status is not `ok`, in one line; None if it is."""
        return self._cell.reason

    @property
    def row(self) -> Row:
        """All columns of `cells.csv` (docs/reading-the-report.md) -> their values."""
        return dict(self._cell.row)

    @property
    def record(self) -> Record | None:
        """The record of that process, with all raw times; None if the cell has not run yet."""
        record = self._cell.record
        return record if record is None or self.path is None else read_record(self.path)

    @property
    def samples_per_s(self) -> float | None:
        """Throughput: of a process the median of its blocks of steps, of several processes the median of these."""
        return self._number("samples_per_s")

    @property
    def samples_per_s_low(self) -> float | None:
        """The lower end of the throughput's 95 % interval."""
        return self._number("samples_per_s_low")

    @property
    def samples_per_s_high(self) -> float | None:
        """The upper end of the throughput's 95 % interval."""
        return self._number("samples_per_s_high")

    @property
    def num_processes(self) -> int:
        """How many processes the throughput is of."""
        return self._cell.num_processes

    @property
    def latency_p50_ms(self) -> float | None:
        """The median time of a step of one batch, waited for, in milliseconds."""
        return self._number("latency_p50_ms")

    @property
    def latency_p90_ms(self) -> float | None:
        """The 90th percentile of a step's time, in milliseconds; None with too few steps."""
        return self._number("latency_p90_ms")

    @property
    def latency_p99_ms(self) -> float | None:
        """The 99th percentile of a step's time, in milliseconds; None with too few steps."""
        return self._number("latency_p99_ms")

    @property
    def warnings(self) -> list[str]:
        """What a reader of the numbers should know, a sentence each."""
        return warnings_of(self._cell.row)

    def __repr__(self) -> str:
        """One line, such as `Result(cnn-cpu-fp32-b128-infer: ok, 401 samples/s)`."""
        rate = self.samples_per_s
        what = f", {significant(rate)} samples/s" if rate is not None else f": {self.reason}" if self.reason else ""
        return f"Result({self.label}: {self.status}{what})"

    def _number(self, column: str) -> float | None:
        return self._cell.number(column) if self.is_ok else None


class Results(Sequence[Result]):
    """Results in their order; `results[0]` is a `Result`, `results[1:]` are `Results`.

    Attributes:
        folder: where the records are.
        notes: sentences about records that could not be read.
    """

    def __init__(self, results: Sequence[Result], folder: Path, notes: Sequence[str] = ()) -> None:
        self._results = list(results)
        self.folder = folder
        self.notes = list(notes)

    @classmethod
    def of_records(cls, records: Sequence[Record], folder: Path) -> "Results":
        """The results of records in `folder`."""
        costs = _costs()
        cells = cells_of(Process.of(each, costs) for each in records)
        return cls([Result(each, folder / f"{each.name}.json") for each in cells], folder)

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> "Results": ...

    def __getitem__(self, index: int | slice) -> "Result | Results":
        if isinstance(index, slice):
            return Results(self._results[index], self.folder, self.notes)
        return self._results[index]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def best(self, latency_ms: float | None = None) -> Result:
        """The ok result with the most samples/s.

        Args:
            latency_ms: results whose median latency is longer, or unknown, do not count; None for no limit.

        Raises:
            UserError: no result is ok and within the limit, or they are of several models, modes or data, whose speeds
                can't be compared.
        """
        found = groups(each._cell for each in self._results)
        if len({each.fastest.workload_key for each in found}) > 1:
            named = "; ".join(workload_text(each.fastest) for each in found[:MAX_NAMED])
            raise UserError(f"best: the results are of {len(found)} different works ({named}): choose those of one")
        inside = [within.fastest for each in found if (within := each.within(latency_ms)) is not None]
        if not inside:
            limit = "" if latency_ms is None else f" is within {latency_ms:g} ms"
            raise UserError(f"best: no ok cell{limit}")
        fastest = max(inside, key=lambda each: each.speed or 0.0)
        return next(each for each in self._results if each._cell.measured_key == fastest.measured_key)

    def to_frame(self) -> "pd.DataFrame":
        """A row for each result, with the columns of `cells.csv`; pandas is imported now."""
        from accelbench.report.csv_file import frame

        return frame(device_scaling.rows(self._sweep()))

    def report(self, path: str | Path | None = None) -> Path:
        """Builds the report of all records in the folder, and returns the page's path.

        Args:
            path: the folder that the report is written to; None for `report` in the folder of the records.

        Raises:
            UserError: the folder holds no readable records, or the report can't be written.
        """
        from accelbench.report.build import build

        return build(self.folder, Path(path) if path is not None else self.folder / "report", _costs())

    def __repr__(self) -> str:
        """The answer, and a line for each result."""
        lines = [f"Results of {len(self)} cells in {self.folder}", *self._answers()]
        return "\n  ".join([*lines, *map(repr, self._results[: html.MAX_ROWS]), *html.more(len(self))])

    def _repr_html_(self) -> str:
        """For notebooks: the answer, a table, and a picture of the throughputs."""
        shown = self._results[: html.MAX_ROWS]
        bars = [
            html.Bar(each.label, each.samples_per_s, each.samples_per_s_low, each.samples_per_s_high)
            for each in shown
            if each.samples_per_s is not None
        ]
        headings = ["cell", "status", "samples/s", "95 % interval", "p50 (ms)", "warnings, or the reason"]
        return html.page(
            [f"Records: {self.folder}", *self._answers(), *html.more(len(self)), *self.notes],
            html.table(headings, [_entries(each) for each in shown]),
            html.bars(bars, "samples/s") if len(bars) > 1 else "",
        )

    def _answers(self) -> list[str]:
        several = [each for each in answers(each._cell for each in self._results) if each.others]
        return [clean(terminal.sentence(each).plain) for each in several[: terminal.MAX_WORKLOADS]]

    def _sweep(self) -> Sweep:
        return Sweep(folder="", suite="", title="", cells=[each._cell for each in self._results])


def read(folder: str | Path) -> Results:
    """The results of a folder of records, such as `runs/mine` or `results`; those of the folders below it too.

    Args:
        folder: relative to the current folder, or else to the project's.

    Raises:
        UserError: it holds no sweep, or none can be read.
    """
    top = Path(folder)
    if not top.exists():
        top = workplace().root / folder
    sweeps = reading.read_all(top, _costs())
    cells = [each for sweep in sweeps for each in sweep.cells]
    found = [Result(each, each.path if each.path and os.path.lexists(each.path) else None) for each in cells]
    return Results(found, top, [note for sweep in sweeps for note in sweep.notes])


def _costs() -> Mapping[Any, Any]:
    from accelbench.settings import params  # it imports OmegaConf

    return params.costs(workplace().project)


def _entries(result: Result) -> list[str]:
    low, high = result.samples_per_s_low, result.samples_per_s_high
    return [
        result.label,
        result.status,
        significant(result.samples_per_s),
        html.interval(low, high),
        significant(result.latency_p50_ms),
        result.reason or "; ".join(result.warnings),
    ]
