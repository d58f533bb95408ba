"""The contents of the report's page, whatever the format."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from types import ModuleType
from typing import Any

from accelbench.answers.cells import NOT_RUN, OLDER, UNREADABLE, MeasuredCell
from accelbench.answers.headline import notices, stand_ins, tips, unmeasured
from accelbench.answers.jobs import Job, jobs
from accelbench.judging.costs import price_notes
from accelbench.judging.verdict import DISTURBED
from accelbench.presentation import counted
from accelbench.report.extension import Addition, Picture
from accelbench.report.overview import Tile, every_cell, tiles
from accelbench.report.questions import QuestionSection, questions
from accelbench.report.read import NO_COSTS, Costs, Sweep, cells_in
from accelbench.report.table import Column, Table, count, tabulate
from accelbench.schema.cell import UNEXPECTED, Device, Status
from accelbench.schema.record import DEVICE_MEASUREMENTS, Record
from accelbench.schema.serialize import grouped

MAX_TILES = 4
LABELS_SHOWN = 2
# Outcomes, in the order in which they are shown.
ORDER = [
    *(word for word in Status if word in UNEXPECTED),
    DISTURBED,
    OLDER,
    UNREADABLE,
    NOT_RUN,
    Status.skipped,
]
REASON_COLUMNS: list[Column[list[MeasuredCell]]] = [  # a row is about cells with one outcome and reason
    Column("status", lambda same: same[0].outcome),
    Column("cells", len, count),
    Column("reason", lambda same: same[0].reason),
    Column("such as", lambda same: ", ".join(cell.label for cell in same[:LABELS_SHOWN])),
    Column("suites", lambda same: ", ".join(dict.fromkeys(cell.cell.suite for cell in same))),
]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One suite's part of the page."""

    sweep: Sweep
    added: Addition
    pictures: list[Picture]


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole report."""

    notices: list[str]  # warnings, before any number
    stand_ins: dict[str, str]  # data set -> a sentence, if a stand-in was measured instead of it
    doubts: list[tuple[str, object]]  # the label of each cell that is in doubt, with the reasons
    tips: dict[str, list[str]]  # tip -> the labels of the cells that it is for
    headline: dict[str, str]  # topic -> sentences about all cells together
    machines: list[str]  # machines of the records, such as `AMD EPYC, 2 cores`
    folder: str  # folder of the results, as typed in a command
    jobs: list[Job]  # all, the largest gain first
    tiles: list[Tile]
    measured: Counter[Device]  # how many cells have numbers
    unmeasured: Counter[tuple[str, str]]  # how many cells have no numbers, by outcome and reason
    questions: list[QuestionSection]  # users' questions, each with a sentence and a chart
    notes: list[str]  # about records that are not shown
    counts: dict[str, int]  # number of cells by outcome, ok first, without zeros
    when: tuple[str, str] | None  # the first and the last start, UTC; None if nothing has run
    missing: Table | None  # a row for each reason why cells are not ok
    environments: list[tuple[str, str]]  # (what, description) of the machine, the versions and the code
    sections: list[Section]  # one for each suite with a measured cell, or with a study
    cells: dict[str, Any]  # data of every cell, for the page's table and charts
    added: list[Table]  # tables of the project's extension, at the end

    @property
    def pictures(self) -> list[Picture]:
        """All pictures, in the page's order."""
        return [picture for section in self.sections for picture in section.pictures]


def compose(
    sweeps: Sequence[Sweep],
    problems: Sequence[str] = (),
    extension: ModuleType | None = None,
    folder: str = "results",
    costs: Costs = NO_COSTS,
) -> Page:
    """Composes the page on `sweeps`, which lie in `folder`, and were read with `costs`.

    The page begins with notices, such as `problems`. `extension` adds to the sections and to the page. The answers are
    computed from all `sweeps`.
    """
    cells = cells_in(sweeps)
    every = jobs(cells)
    published: list[Tile] = extension.tiles(sweeps) if extension else []
    topics = notices(cells)
    if extension and (studies := extension.headline(sweeps)):
        topics["Studies"] = studies
    records = [process.record for sweep in sweeps for process in sweep.planned]
    ran = [record for record in records if record and record.status != Status.skipped]
    starts = [record.started_at for record in ran]
    notes = [note for sweep in sweeps for note in sweep.notes]
    notes += price_notes((cell.row for cell in cells), costs)
    nums = Counter(cell.outcome for cell in cells)
    sections = []
    for sweep in [*sweeps, *(extension.unmeasured(sweeps) if extension else ())]:
        if sweep.answers or any(cell.is_ok for cell in sweep.cells) or (extension and sweep.study):
            sections.append(_section(sweep, extension))
    return Page(
        notices=list(problems),
        stand_ins=stand_ins(cells),
        doubts=[(cell.label, cell.row["warnings"]) for cell in cells if cell.is_ok and cell.row["warnings"]],
        tips=tips(cells),
        headline=topics,
        machines=_machines(ran),
        folder=folder,
        jobs=every,
        tiles=[*islice(tiles(every, cells), MAX_TILES - bool(published)), *published],
        measured=Counter(cell.cell.device for cell in cells if cell.is_ok),
        unmeasured=unmeasured(cells),
        questions=questions(cells, every),
        notes=notes,
        counts={word: nums[word] for word in (Status.ok, *ORDER) if nums[word]},
        when=(_minute(min(starts)), _minute(max(starts))) if starts else None,
        missing=reasons(cells),
        environments=list(_environments(ran)),
        sections=sections,
        cells=every_cell(sweeps, every),
        added=extension.of_page() if extension else [],
    )


def _machines(records: Sequence[Record]) -> list[str]:
    names = []
    for record in records:
        machine = record.environment.get("machine")
        if machine:
            cores = machine.get("num_cores")
            parts = [machine.get("cpu_name"), cores and counted(cores, "core"), *machine.get("gpus", [])]
            names.append(", ".join(dict.fromkeys(filter(None, parts))))
    return list(dict.fromkeys(names))


def _section(sweep: Sweep, extension: ModuleType | None) -> Section:
    warning = ", ".join(notice.partition(" (")[0] for notice in stand_ins(sweep.cells).values())
    added = extension.of_suite(sweep, warning) if extension else Addition()
    pictures = []
    for kind, what, figure in added.pictures:
        alt = f"{what}, {sweep.suite}; the tables hold its values"
        pictures.append(Picture(path=f"plots/{kind}_{sweep.folder}.png", alt=alt, figure=figure))
    return Section(sweep=sweep, added=added, pictures=pictures)


def _environments(records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Yields the machine, versions, code and git state of the newest record, and how many processes differ in each.

    Each engine has code of its own.
    """
    if not records:
        return
    newest = max(records, key=lambda record: record.started_at)
    for what, value in newest.environment.items():
        if what not in DEVICE_MEASUREMENTS:
            alike = [each for each in records if what != "code" or each.cell.engine == newest.cell.engine]
            num = sum(record.environment.get(what) != value for record in alike)
            differs = f" ({num} of {counted(len(alike), 'process')} differ)" if num else ""
            yield what + differs, _flat(value)


def _minute(started_at: str) -> str:
    return f"{datetime.fromisoformat(started_at):%Y-%m-%d %H:%M}"


def _flat(value: object) -> str:
    if isinstance(value, dict):
        known = {key.replace("_", " "): each for key, each in value.items() if each not in (None, [], {})}
        return ", ".join(f"{key} {_flat(each)}" for key, each in known.items()) or "none set"
    if isinstance(value, list):
        return "; ".join(_flat(each) for each in value)
    return str(value)


def reasons(cells: Sequence[MeasuredCell]) -> Table | None:
    """Makes a row for each reason why cells are not ok, unexpected failures first. Returns None if all cells are ok."""
    bad = (cell for cell in cells if not cell.is_ok)
    groups = grouped(bad, lambda cell: (cell.outcome, cell.reason)).values()
    same = sorted(groups, key=lambda alike: (ORDER.index(alike[0].outcome), -len(alike)))
    notes = ["cells.csv lists all of them."]
    return tabulate("What is missing, and why", REASON_COLUMNS, same, notes) if same else None
