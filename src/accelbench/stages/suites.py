"""The suites of params.yaml: their cells, how much of them is still to measure, measuring them, and how they ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from accelbench.cluster import dispatch
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.grid.plan import in_order, prepare, skip_reason
from accelbench.isolation.hosts import Hosts
from accelbench.judging.disturbed import is_retried
from accelbench.project import CONFIRMED, PARAMS, PLAN, RESULTS, RETRIES, Workplace, check_inside, shown
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import read_planned
from accelbench.schema.record import read_all
from accelbench.schema.serialize import write_json
from accelbench.schema.vocab import UNEXPECTED
from accelbench.settings import params
from accelbench.settings.compose import cells_of, compose
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sweep import terminal


@dataclass(frozen=True)
class Suite:
    """A suite of the params.yaml in the project's folder `root`, and where its records are."""

    root: Path
    name: str
    cells: Mapping[str, Cell]  # by id, in the order in which they run
    options: SweepOptions

    @property
    def folder(self) -> Path:  # of its records
        return self.root / RESULTS / self.name

    def left(self) -> list[Cell]:
        """The cells to measure: not skipped, without a record that stands; all if the data set is not prepared yet."""
        wanted = [cell for cell in self.cells.values() if skip_reason(cell) is None]
        try:
            place = Workplace.of_project(self.root).with_data(self.options.data_root)
            names = {item.cell.id: item.record_name for item in prepare(list(self.cells.values()), place).planned}
        except UserError:
            return wanted
        done = read_all([self.folder / f"{names[cell.id]}.json" for cell in wanted])
        retries = self.options.retry == Retry.failed
        stands = {record.name for record in done if not (retries and is_retried(record))}
        return [cell for cell in wanted if names[cell.id] not in stands]

    def measure(self, console: Console, hosts: Hosts) -> None:
        """Measures every cell that has no record, and shows the answer. Raises UserError."""
        check_inside(self.folder, self.root)
        result = dispatch.run(list(self.cells.values()), self.options, console, self.folder, hosts=hosts)
        terminal.show_answer(result.records, shown(result.folder), console)


def suites(root: Path, names: Sequence[str] | None = None) -> list[Suite]:
    """The suites of params.yaml with these names, or all in its order. Raises UserError: a setting is wrong."""
    settings = params.load(root)
    retry = settings.get("retry") or Retry.none
    if retry not in list(Retry):
        raise UnknownChoiceError("retry", retry, Retry)
    found = []
    for name in map(str, settings.get("suites") or {}) if names is None else names:
        cells, options = cells_of(compose(["-m", f"suite={name}", f"retry={retry}"]))
        found.append(Suite(root, name, in_order(cells), options))
    return found


def write_retries(root: Path) -> None:
    """Writes, for each suite of the project, the list of the cells that `retry: failed` measures again.

    It holds when each record began, so that a cell that fails again makes another list. Raises UserError.
    """
    settings = params.load(root)
    check_inside(root / RETRIES, root)
    is_on = settings.get("retry") == Retry.failed
    for suite in settings.get("suites") or {}:
        folder = root / RESULTS / str(suite)
        cells = {}
        if is_on and (folder / PLAN).exists():
            cells = {record.name: record.started_at for record in read_planned(folder) if is_retried(record)}
        write_json(root / RETRIES / f"{suite}.json", cells)


def problems(root: Path) -> list[str]:
    """A line for each cell that failed unexpectedly, and for each record that can't be read."""
    folders = [root / RESULTS / str(suite) for suite in params.load(root).suites]
    folders += [plan.parent for plan in sorted((root / CONFIRMED).glob(f"*/{PLAN}"))]
    lines = []
    for readable in map(read_planned, folders):
        failed = [record for record in readable if record.status in UNEXPECTED]
        lines += [f"{record.cell.suite}: {record.label}: {record.status}: {record.reason}" for record in failed]
        lines += readable.problems()
    return lines


def is_strict(root: Path) -> bool:
    """Whether params.yaml asks for exit status 1 if a cell failed unexpectedly, as by default. Raises UserError."""
    strict = params.load(root).get("strict", True)
    if not isinstance(strict, bool):
        raise UserError(f"{PARAMS}: strict={strict}: should be true or false")
    return strict
