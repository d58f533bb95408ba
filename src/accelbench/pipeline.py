"""The suites of params.yaml, and the stages of dvc.yaml that measure suites or report on them."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from accelbench import project
from accelbench.cluster import controller
from accelbench.commands import share
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import is_retried
from accelbench.report.read import read, read_all
from accelbench.schema.cell import UNEXPECTED, Cell
from accelbench.schema.plan_file import read_planned
from accelbench.schema.serialize import write_json, writing
from accelbench.search import top
from accelbench.settings import params
from accelbench.settings.compose import cells_of, compose
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sweep import terminal

EXPERIMENT = "DVC_EXP_BASELINE_REV"  # DVC sets it for the stages of an experiment


@dataclass(frozen=True)
class Suite:
    """A suite of params.yaml in the project's folder `root`."""

    root: Path
    name: str
    cells: Mapping[str, Cell]  # id -> cell
    options: SweepOptions

    @property
    def folder(self) -> Path:  # folder of the suite's records
        return self.root / project.RESULTS / self.name

    def measure(self, console: Console, hosts: Hosts, **how: Any) -> None:
        """Measures every cell without a record. Raises UserError when `sweep.run.run` does."""
        project.check_inside(self.folder, self.root)
        controller.run(list(self.cells.values()), self.options, console, self.folder, hosts=hosts, **how)


def suites(root: Path, names: Sequence[str] | None = None) -> list[Suite]:
    """Returns the suites of params.yaml with these names, by default all. Raises UserError if a setting is wrong."""
    retry = params.load(root).retry
    made = []
    for name in params.suite_names(root) if names is None else names:
        cells, options = cells_of(compose(["-m", f"suite={name}", f"retry={retry}"]))
        made.append(Suite(root, name, {cell.id: cell for cell in cells}, options))
    return made


def problems(root: Path) -> list[str]:
    """Returns a line for each cell that failed unexpectedly, and for each record that can't be read."""
    folders = [root / project.RESULTS / suite for suite in params.suite_names(root)]
    folders += [plan.parent for plan in sorted((root / project.CONFIRMED).glob(f"*/{project.PLAN}"))]
    lines = []
    for readable in map(read_planned, folders):
        failed = [record for record in readable if record.status in UNEXPECTED]
        lines += [
            f"{record.cell.suite}: {record.label}: {record.status}: {record.reason}" for record in failed
        ]
        lines += readable.problems()
    return lines


def confirm_best(root: Path, console: Console, hosts: Hosts) -> None:
    """Measures cells again if it is open which of two cells is faster, for at most `confirm_s` seconds.

    Each pair of cells is a question, with a folder in confirmed/. The shortest questions are chosen first. For every
    question that is not chosen, the plan in its folder is deleted, so that no report reads the folder. Its records
    stay. Raises UserError.
    """
    sweeps = read_all(root / project.RESULTS, wanted=params.suite_names(root))
    chosen = top.questions(sweeps, params.confirm_s(root))
    folder = root / project.CONFIRMED
    project.check_inside(folder, root)
    names = list(map(top.folder_of, chosen))
    for plan in folder.glob(f"*/{project.PLAN}"):
        if plan.parent.name not in names:
            plan.unlink()
    top.answer(chosen, folder, console, hosts)
    with writing(folder / "questions.txt") as file:  # DVC warns about empty folders
        asked = [f"{lead.first.label} or {lead.second.label}" for lead in chosen]
        file.write_text("".join(f"{name}: {text}\n" for name, text in zip(names, asked, strict=True)))


def run_suite(console: Console, name: str) -> None:
    """Measures every cell of the suite that has no record in results/<suite>/.

    The stage succeeds even if cells failed. Otherwise DVC would not build the report.
    """
    (suite,) = suites(project.pipelines_place().root, [name])
    with Hosts() as hosts:
        suite.measure(console, hosts)
    terminal.show_answer(read(suite.folder).planned, project.shown(suite.folder), console)


def confirm(console: Console) -> None:
    """Measures the cells of open questions again, interleaved, into confirmed/ (see `confirm_best`)."""
    with Hosts() as hosts:
        confirm_best(project.pipelines_place().root, console, hosts)


def list_retries(_: Console) -> None:
    """Writes retries/<suite>.json for each suite: the cells that `retry: failed` measures again. Raises UserError.

    DVC does not see failed cells. So it always runs this stage, and each sweep depends on its file.
    """
    root = project.pipelines_place().root
    project.check_inside(root / project.RETRIES, root)
    is_on = params.load(root).retry == Retry.failed
    for suite in params.suite_names(root):
        folder = root / project.RESULTS / suite
        cells = {}
        if is_on and (folder / project.PLAN).exists():
            # With the start of each record, the file also changes if a cell fails again.
            cells = {record.name: record.started_at for record in read_planned(folder) if is_retried(record)}
        write_json(root / project.RETRIES / f"{suite}.json", cells)


def build_report(_: Console) -> None:
    """Builds report/ from results/."""
    from accelbench.report import dvc_plots  # not at the top: it imports the plot libraries

    place = project.pipelines_place()
    out = place.root / "report"
    share.build_report(place, place.root / project.RESULTS, out, params.load(place.project).costs, print)
    dvc_plots.write(out)


def verdict(_: Console) -> int:
    """Prints the cells that failed unexpectedly, and the records that can't be read. Returns 0 if there are none.

    Otherwise it returns 1. But it always returns 0 in a DVC experiment, and if params.yaml has `strict: false`.
    """
    root = project.pipelines_place().root
    lines = problems(root)
    for line in lines:
        print(line, file=sys.stderr)
    return int(bool(lines) and params.load(root).strict and EXPERIMENT not in os.environ)
