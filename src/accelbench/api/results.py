"""The results of `run`, `measure`, `read` and `compare`. Several results are a Python sequence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelbench.answers.cells import MeasuredCell, Process, cells_of
from accelbench.answers.comparison import RecordSet, compared, difference, find
from accelbench.answers.headline import beside_speeds
from accelbench.answers.jobs import Limit, jobs
from accelbench.answers.sureness import MARGIN, SpeedRatio
from accelbench.answers.words import disturbed_text, speed_text
from accelbench.errors import UserError
from accelbench.judging.row import remarks_in, served_text, tails
from accelbench.judging.warnings import Kind
from accelbench.project import workplace
from accelbench.report import read as reading
from accelbench.report.read import Sweep
from accelbench.schema.cell import Mode
from accelbench.schema.measurement import Measurement
from accelbench.schema.record import Record, Row
from accelbench.schema.record import read as read_record
from accelbench.schema.text import clean
from accelbench.stats.order_statistics import NUM_SAMPLES_FOR
from accelbench.sweep import terminal

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a cell, a network or a function.

    Each column of `cells.csv` (docs/columns.md) is an attribute, too, such as `samples_per_s`, `latency_p50_ms`,
    `precision` or `mfu`. A number is None if it is unknown, or if the cell is not ok. `warnings`, `tips` and `notes`
    are lists of sentences.

    The speed is computed from all processes of the cell (repeats and seeds). All other numbers come from one process,
    whose speed is nearest to the cell's speed.
    """

    _cell: MeasuredCell

    def __getattr__(self, column: str) -> Any:
        if column.startswith("_") or column not in self.row:
            raise AttributeError(f"a result has no {column}: docs/columns.md lists its columns")
        return remarks_in(self.row, Kind(column)) if column in list(Kind) else self.row[column]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.row]

    @property
    def row(self) -> Row:
        """The columns of `cells.csv`."""
        return self._cell.row

    @property
    def label(self) -> str:
        """Short name of the cell, such as `cnn-cpu-fp32-b128-infer`."""
        return self._cell.label

    @property
    def status(self) -> str:
        """A status of `cells.csv`, `disturbed`, `older`, `not run yet` or `not readable`."""
        return self._cell.outcome

    @property
    def is_ok(self) -> bool:
        """Whether the cell was measured, and its numbers are valid."""
        return self._cell.is_ok

    @property
    def reason(self) -> str | None:
        """Why the status is not `ok`, in one line."""
        return disturbed_text(self._cell) if self._cell.disturbed else self._cell.reason

    @property
    def num_processes(self) -> int:
        """The number of processes from which the speed is computed."""
        return self._cell.num_processes

    @property
    def path(self) -> Path | None:
        """The record's file. None for `measure`."""
        return self._cell.path

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, nested as in conf/, such as `settings["batch_size"]` and `settings["model"]["name"]`."""
        return self._cell.cell.settings()

    @property
    def name(self) -> str:
        """The network's name. For `measure`, it is the name that the user chose, or that of the class or function."""
        return self._cell.cell.model.name

    @property
    def samples(self) -> int:
        """The number of samples in a step."""
        return self._cell.cell.batch_size

    @property
    def flops(self) -> int | None:
        """Floating-point operations of a step, counted from its operators. A multiply-add counts as two."""
        measured = self._cell.measurement
        return measured.work.flops if measured and measured.work else None

    @property
    def raw(self) -> Measurement | None:
        """What was measured, with all raw times."""
        record = self._cell.record
        if record is not None and self.path is not None:
            record = read_record(self.path)  # results of `read` do not keep the raw times
        return record.measurement if record else None

    def __repr__(self) -> str:
        """One line, such as `Result(cnn-cpu-fp32-b128-infer: ok, 401 samples/s, p50 10.1 ms)`, with doubts."""
        words = [self.status]
        if self.is_ok:
            if self.samples_per_s is not None:
                words.append(speed_text(self._cell.cell, self.samples_per_s))
            words += [served_text(self.row), tails(self.row, "latency"), *self.warnings]
        text = ", ".join(filter(None, words))
        return clean(f"Result({self.label}: {text}{f': {self.reason}' if self.reason else ''})")


class Results(list[Result]):
    """A list of results. `results[0]` is a `Result`; `results[1:]` is a `Results`."""

    def __init__(self, results: Sequence[Result], folder: Path, notes: Sequence[str] = ()) -> None:
        super().__init__(results)
        self.folder = folder  # folder of the records
        self.notes = list(notes)  # sentences about records that could not be read

    @classmethod
    def of_records(cls, records: Sequence[Record], folder: Path) -> "Results":
        """The results of records in `folder`."""
        costs = _costs()
        cells = cells_of(
            Process.of(record, costs=costs, path=folder / f"{record.name}.json") for record in records
        )
        return cls(list(map(Result, cells)), folder)

    def __getitem__(self, index: Any) -> Any:
        results = super().__getitem__(index)
        return Results(results, self.folder, self.notes) if isinstance(index, slice) else results

    def best(self, latency_ms: float | None = None, percentile: int = 50) -> Result:
        """Returns the ok result with the most samples/s. If `latency_ms` is given, its latency is not above this.

        The latency is a percentile of the steps' times: 50 (the median), 90 or 99. 90 and 99 need many steps.

        Raises UserError: no result remains, or the results are of different models, modes or data.
        """
        cells = [result._cell for result in self]
        every = jobs(cells)
        if len({job.fastest.workload_key for job in every}) > 1:
            raise UserError(
                f"best: the results are of several jobs: {'; '.join(job.what for job in every)}. "
                "Select the results of one job, such as `results[:4].best()`"
            )
        if percentile not in NUM_SAMPLES_FOR:
            raise UserError(
                f"percentile={percentile}: should be one of {', '.join(map(str, NUM_SAMPLES_FOR))}"
            )
        limit = None if latency_ms is None else Limit(latency_ms, percentile)
        inside = [job.fastest for job in jobs(cells, limit)]
        if not inside:
            raise UserError("best: no ok cell" + ("" if limit is None else f" is known to be within {limit}"))
        fastest = max(inside, key=lambda cell: cell.speed or 0.0)
        return next(result for result in self if result._cell.measured_key == fastest.measured_key)

    def to_frame(self) -> "pd.DataFrame":
        """A row for each result, with the columns of `cells.csv`."""
        from accelbench.report.export import cell_rows, frame  # not at the top: it takes long to import

        sweep = Sweep(folder="", suite="", title="", cells=[result._cell for result in self])
        return frame(cell_rows([sweep]))

    def report(self, path: str | Path | None = None) -> Path:
        """Builds the report of all records in the folder, and returns the page's path.

        `path` is the folder of the report. If it is None, it is `report` in the folder of the records.

        Raises UserError: the folder has no readable records, or the report can't be written.
        """
        from accelbench.commands.share import build_report

        out = self.folder / "report" if path is None else Path(path)
        return build_report(workplace(), self.folder, out, _costs(), say=lambda line: None)

    def __repr__(self) -> str:
        """The answer, and a line for each result."""
        lines = [f"Results of {len(self)} cells in {self.folder}", *self._answers()]
        return "\n  ".join([*lines, *map(repr, self)])

    def _answers(self) -> list[str]:
        cells = [result._cell for result in self]
        several = [job for job in jobs(cells) if job.lead or job.fastest.cell.mode == Mode.generate]
        sentences = (clean(f"{job.what}: {job.sentence}") for job in several[: terminal.MAX_WORKLOADS])
        return [*beside_speeds(cells), *sentences]


def read(folder: str | Path) -> Results:
    """Returns the results in a folder of records, such as `runs/mine` or `results`, and in the folders below it.

    A relative path starts at the current folder. If nothing is there, it starts at the project's folder.
    Raises UserError: no sweep in the folder is readable.
    """
    from accelbench.settings.params import wanted_suites  # not at the top: it imports OmegaConf

    top = Path(folder)
    place = workplace()
    if not top.exists():
        top = place.root / folder
    sweeps = reading.read_all(top, _costs(), wanted_suites(place.project, top))
    results = [Result(cell) for sweep in sweeps for cell in sweep.cells]
    return Results(results, top, [note for sweep in sweeps for note in sweep.notes])


def _costs() -> Mapping[Any, Any]:
    from accelbench.settings import params  # not at the top: it imports OmegaConf

    return params.load(workplace().project).costs


Records = str | Path | Results


@dataclass(frozen=True)
class PairVerdict:
    """The comparison of one cell of the second side with the matching cell of the first side."""

    label: str  # label of the second side's cell
    verdict: str  # of the second side's cell: `same`, `faster`, `slower` or `can't tell`
    # The second cell's samples/s divided by the first's; None if one has fewer than five processes.
    ratio: float | None
    low: float | None  # 95 % interval of the ratio
    high: float | None
    _comparison: SpeedRatio = field(repr=False, compare=False)

    def __repr__(self) -> str:
        """One line, as `accelbench compare` prints it."""
        return f"{self.label}: {self.verdict}, {difference(self._comparison)}"


class Comparison(list[PairVerdict]):
    """A verdict for each pair of cells."""

    def __init__(self, pairs: Sequence[PairVerdict], about: Sequence[str], warnings: Sequence[str]) -> None:
        super().__init__(pairs)
        self.about = list(about)  # lines: the two sides, and the settings that were compared
        self.warnings = list(warnings)  # what a reader of the verdicts should know

    def is_slower_by(self, share: float) -> bool:
        """Is true if a pair's whole interval is below `1 - share`. 0.05 does the same as `--fail-if slower:5%`."""
        return any(pair._comparison.is_slower_by(share) for pair in self)

    def __repr__(self) -> str:
        """What was compared, and a line for each pair."""
        return "\n  ".join([*self.about, *map(repr, self), *self.warnings])


def compare(a: Records, b: Records, margin: float = MARGIN, *, anyway: bool = False) -> Comparison:
    """Compares the speeds in each pair of cells from `a` and `b`, as `accelbench compare` does with records.

    Args:
        a: the results of `run` or `read`; or a folder of records; or `FOLDER@WORD`, such as `results@main`: the records
            in FOLDER whose git revision, branch or hardware matches WORD.
        b: the other side: records or results. Each ratio is a speed of `b` divided by a speed of `a`.
        margin: differences up to this share give the verdict `same`. 0.02 is 2 %.
        anyway: whether to compare even if model, data, mode or protocol differ, or if the sides were not interleaved.

    Raises UserError: there are no such records, the sides have a record in common, or the sides are not comparable.
    """
    if not isinstance(margin, int | float) or isinstance(margin, bool) or not 0 <= margin < 1:
        raise UserError(f"margin={margin}: should be a share from 0 to below 1, such as 0.02")
    first, second = _records(a), _records(b)
    answer = compared(first, second, anyway=anyway)
    pairs = []
    for pair, speeds in answer.pairs:
        verdict = speeds.verdict(margin).value
        pairs.append(PairVerdict(pair.label, verdict, speeds.ratio, speeds.low, speeds.high, speeds))
    about = [f"A: {first.name}", f"B: {second.name}"]
    about += [f"Compared: {name}: {values}" for name, values in answer.varied.items()]
    return Comparison(pairs, about, answer.warnings)


def _records(side: Records) -> RecordSet:
    if not isinstance(side, Results):
        return find(str(side))
    processes = []
    for result in side:
        processes += [process for process in result._cell.processes if process.record]
    if not processes:
        raise UserError(f"{side.folder}: the results have no records")
    return RecordSet(name=str(side.folder), processes=processes, notes=side.notes)
