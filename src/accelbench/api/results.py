"""The results of a call of `run`, or of a folder of records, as a Python sequence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelbench.answers.cells import MeasuredCell, cells_of
from accelbench.answers.headline import beside_speeds
from accelbench.answers.process import Process
from accelbench.answers.reference import Group, Limit, groups
from accelbench.answers.sentences import answers, verdict_text
from accelbench.answers.words import disturbed_text, speed_text, speed_unit, workload_text
from accelbench.api import html
from accelbench.errors import UserError
from accelbench.judging.row import remarks_in
from accelbench.judging.served import served_text
from accelbench.judging.warnings import Kind
from accelbench.presentation import significant
from accelbench.project import workplace
from accelbench.report import read as reading
from accelbench.report.read import Sweep
from accelbench.schema.record import Record
from accelbench.schema.text import clean
from accelbench.schema.vocab import Mode
from accelbench.stats.order_statistics import NUM_SAMPLES_FOR
from accelbench.sweep import terminal

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(html.Figures):
    """The result of one cell. Numbers are None if they are unknown, or if the cell is not ok.

    The speed is computed from all processes of the cell (repeats and seeds). All other numbers come from one
    process, whose speed is nearest to the cell's speed.
    """

    label: str  # short name of the cell, such as `cnn-cpu-fp32-b128-infer`
    status: str  # a status of `cells.csv`, `disturbed`, `not run yet` or `not readable`
    is_ok: bool  # whether the cell was measured and its numbers are valid
    reason: str | None  # why the status is not `ok`, in one line
    num_processes: int  # processes behind the throughput
    # Columns of a cell that served requests: see docs/columns.md.
    requests_per_s: float | None
    offered_per_s: float | None
    request_p50_ms: float | None
    request_p90_ms: float | None
    request_p99_ms: float | None
    miss_share: float | None
    # Columns of a training to a target, from the seed with the median time; None if this training missed the target.
    target_s: float | None  # from the start of the process to the end of the evaluation that reached the target
    target_epochs: float | None
    target_tested: float | None  # metric on the test set
    verdict: str | None  # for protocol=server: `sure pass`, `sure fail` or `can't tell`
    path: Path | None  # file of the record; None if the cell has not run yet
    _cell: MeasuredCell = field(compare=False)

    @classmethod
    def of(cls, cell: MeasuredCell) -> "Result":
        """The result of a cell."""
        return cls(
            label=cell.label,
            status=cell.outcome,
            is_ok=cell.is_ok,
            reason=disturbed_text(cell) if cell.disturbed else cell.reason,
            num_processes=cell.num_processes,
            verdict=str(cell.row["verdict"]) if cell.is_ok and cell.row["verdict"] else None,
            warnings=remarks_in(cell.row, Kind.doubt),
            tips=remarks_in(cell.row, Kind.tip),
            notes=remarks_in(cell.row, Kind.note),
            path=cell.path,
            _cell=cell,
            **{name: cell.number(name) if cell.is_ok else None for name in html.numbers(cls)},
        )

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, nested as in conf/, such as `settings["batch_size"]` and `settings["model"]["name"]`."""
        return self._cell.cell.settings()

    def __repr__(self) -> str:
        """One line, such as `Result(cnn-cpu-fp32-b128-infer: ok, 401 samples/s)`."""
        if self._cell.disturbed:
            return f"Result({self.label}: {self.reason})"
        text = served_text(self._cell.row) if self.is_ok else ""
        what = ""
        if self.samples_per_s is not None:
            what = f", {speed_text(self._cell.cell, self.samples_per_s)}"
        elif text:
            what = f", {text}"
        elif self.reason:
            what = f": {self.reason}"
        return f"Result({self.label}: {self.status}{what})"

    def _repr_html_(self) -> str:
        """Returns a table for notebooks. It shows the numbers and doubts, or the reason why there are no numbers."""
        return _table([self])


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
        cells = cells_of(Process.of(record, costs=costs, path=folder / f"{record.name}.json") for record in records)
        return cls(list(map(Result.of, cells)), folder)

    def __getitem__(self, index: Any) -> Any:
        results = super().__getitem__(index)
        return Results(results, self.folder, self.notes) if isinstance(index, slice) else results

    def best(self, latency_ms: float | None = None, percentile: int = 50) -> Result:
        """Returns the ok result with the most samples/s. If `latency_ms` is given, its latency is not above this.

        The latency is a percentile of the steps' times: 50 (the median), 90 or 99. 90 and 99 need many steps.

        Raises UserError: no result remains, or the results are of different models, modes or data.
        """
        ranked = groups(result._cell for result in self)
        works = dict.fromkeys(workload_text(group.fastest) for group in ranked)
        if len({group.fastest.workload_key for group in ranked}) > 1:
            raise UserError(
                f"best: the results are of several jobs: {'; '.join(works)}. "
                "Select the results of one job, such as `results[:4].best()`"
            )
        if percentile not in NUM_SAMPLES_FOR:
            raise UserError(f"percentile={percentile}: should be one of {', '.join(map(str, NUM_SAMPLES_FOR))}")
        limit = None if latency_ms is None else Limit(latency_ms, percentile)
        cells = [inside.fastest for group in ranked if (inside := group.within(limit)) is not None]
        if not cells:
            raise UserError("best: no ok cell" + ("" if limit is None else f" is known to be within {limit}"))
        fastest = max(cells, key=lambda cell: cell.speed or 0.0)
        return next(result for result in self if result._cell.measured_key == fastest.measured_key)

    def to_frame(self) -> "pd.DataFrame":
        """A row for each result, with the columns of `cells.csv`."""
        from accelbench.report import csv_file  # not at the top: it imports pandas

        sweep = Sweep(folder="", suite="", title="", cells=[result._cell for result in self])
        return csv_file.frame(csv_file.rows([sweep]))

    def report(self, path: str | Path | None = None) -> Path:
        """Builds the report of all records in the folder, and returns the page's path.

        `path` is the folder of the report. If it is None, it is `report` in the folder of the records.

        Raises UserError: the folder has no readable records, or the report can't be written.
        """
        from accelbench.report.build import build
        from accelbench.settings import params

        out = self.folder / "report" if path is None else Path(path)
        place = workplace()
        costs = _costs()
        sweeps = reading.read_all(self.folder, costs, params.wanted_suites(place.project, self.folder))
        extension = params.report_extension(place.project)
        return build(sweeps, self.folder, out, costs, extension=extension)

    def __repr__(self) -> str:
        """The answer, and a line for each result."""
        lines = [f"Results of {len(self)} cells in {self.folder}", *self._answers()]
        return "\n  ".join([*lines, *map(repr, self)])

    def _repr_html_(self) -> str:
        """For notebooks: the answer, and a table."""
        return _table(self, [f"Records: {self.folder}", *self._answers(), *self.notes])

    def _answers(self) -> list[str]:
        cells = [result._cell for result in self]
        several = [answer for answer in answers(cells) if answer.others or answer.fastest.cell.mode == Mode.generate]
        sentences = (
            clean(f"{answer.what}, {answer.data}: {answer.sentence}") for answer in several[: terminal.MAX_WORKLOADS]
        )
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
    results = [Result.of(cell) for sweep in sweeps for cell in sweep.cells]
    return Results(results, top, [note for sweep in sweeps for note in sweep.notes])


def _table(results: Sequence[Result], lines: Sequence[str] = ()) -> str:
    """Returns a table for notebooks. Cells of the same work are sorted by speed. Bars compare them with the fastest."""
    ranked: dict[Any, tuple[Group, MeasuredCell]] = {}
    for group in groups(result._cell for result in results):
        ranked |= {cell.measured_key: (group, cell) for cell in group.cells}
    places = {key: place for place, key in enumerate(ranked)}
    ordered = sorted(results, key=lambda result: places.get(result._cell.measured_key, len(places)))
    units = {speed_unit(result._cell.cell)[1] for result in results}
    unit = min(units) if len(units) == 1 else "speed"
    times = {"first token (ms)": "ttft_ms", "a token (ms)": "tpot_p50_ms"} if "tokens/s" in units else {}
    rows: list[list[str]] = []
    shares: list[float | None] = []
    marked = []
    for result in ordered:
        cell = result._cell
        size = speed_unit(cell.cell)[0]
        low = result.samples_per_s_low
        high = result.samples_per_s_high
        row = [result.label, speed_text(cell.cell, result.samples_per_s).removesuffix(f" {unit}")]
        row.append(html.interval(low and size * low, high and size * high))
        row += [significant(cell.number(column) if result.is_ok else None) for column in times.values()]
        row.append(significant(result.latency_p50_ms))
        against, share = "", None
        if cell.measured_key in ranked:
            group, counted = ranked[cell.measured_key]
            share = (counted.speed or 0.0) / (group.fastest.speed or 1.0)
            if len(group.cells) > 1:
                against = verdict_text(group, counted)
                if counted is group.fastest:
                    marked.append(len(rows))
        if result.is_ok:
            about = "; ".join(filter(None, [served_text(cell.row), *result.warnings]))
        else:
            about = ": ".join(filter(None, [result.status, result.reason]))
        rows.append([*row, against, about])
        shares.append(share)
    headings = ["cell", unit, "95 % interval", *times, "p50 (ms)", "", "doubts, or why there is no number"]
    return html.page(lines, headings, rows, shares, marked)


def _costs() -> Mapping[Any, Any]:
    from accelbench.settings import params  # not at the top: it imports OmegaConf

    return params.load(workplace().project).costs
