"""The newest sweep of very many records, as a folder of links that the report reads as any other."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from accelbench.judging.costs import Cost
from accelbench.presentation import counted
from accelbench.project import CONFIRMED, RACE, RECORDS
from accelbench.report.large.summaries import Summaries, Summary, summarise_all
from accelbench.report.read import Sweep, read_all, with_best_ceilings
from accelbench.schema import plan_file
from accelbench.schema.vocab import Device

# Records in a folder that the page shows whole: reading 5,000 takes half a gigabyte of memory.
MANY = 5_000
# Cells of the newest sweep that the page shows then: a page of 2,000 opens in two seconds (`make bench BENCH=report`).
SHOWN = 2_000


def is_many(results: Path) -> bool:
    """Whether there are more records in `results`, and in the folders below it, than the page shows whole."""
    num = 0
    for folder, refused in plan_file.sweep_folders(results).items():
        num += 0 if refused else sum(1 for _ in folder.glob(RECORDS))
        if num > MANY:
            return True
    return False


def read_newest(results: Path, costs: Mapping[Device, Cost]) -> tuple[list[Sweep], Summaries | None, list[str]]:
    """The sweeps in `results`, as far as the memory has room for them.

    Returns:
        All sweeps, None and no notice; of very many records the newest cells, the summaries of all records, and a
        notice that says so.

    Raises:
        UserError: there is no sweep, or none can be read.
    """
    if not is_many(results):
        return read_all(results, costs), None, []
    summaries = summarise_all(results, costs)
    with newest(results, summaries) as (shortened, (everything, shown_part)):
        sweeps = read_all(shortened, costs)
    notice = f"{everything} are too many for one page: it shows the means of all, and {shown_part}."
    return with_best_ceilings(sweeps, summaries.ceilings), summaries, [f"{notice} cells.csv has every record."]


@contextmanager
def newest(results: Path, summaries: Summaries) -> Iterator[tuple[Path, tuple[str, str]]]:
    """A folder with the newest cells of the newest sweep, and words that say what is too much and what is shown.

    The newest sweep is the one with the latest start of a record, by the clock of the machine that measured it.
    """
    started = [each for each in summaries.found if each.started_at is not None]
    last = max(started or summaries.found, key=_when)
    of_sweep = [each for each in summaries.found if each.folder == last.folder]
    shown = {each.name for each in sorted(of_sweep, key=_when, reverse=True)[:SHOWN]}
    num_folders = len({each.folder for each in summaries.found})
    part = "" if len(shown) == len(of_sweep) else f"the newest {len(shown):,} of the {len(of_sweep):,} cells of "
    everything = f"{counted(len(started), 'record')} of {counted(num_folders, 'sweep')}"
    words = everything, f"{part}the newest sweep, {last.folder.name}"
    with TemporaryDirectory(prefix="accelbench-") as made:
        view = Path(made, results.resolve().name)
        folder = view / last.folder.name if last.folder != results else view
        folder.mkdir(parents=True)
        plan = plan_file.plan_in(last.folder)
        cells = [each for each in plan.cells if each.record_name in shown]
        plan_file.write_plan(replace(plan, cells=cells), folder)
        for name in [*(f"{each}.json" for each in shown), RACE]:
            if (last.folder / name).exists():
                os.symlink((last.folder / name).resolve(), folder / name)
        if (confirmed := results.parent / CONFIRMED).is_dir():
            os.symlink(confirmed.resolve(), Path(made, CONFIRMED))
        yield view, words


def _when(summary: Summary) -> str:
    return summary.started_at or ""
