"""The newest sweep of very many records, as a folder of links that the report reads as any other."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from accelbench.presentation import counted
from accelbench.project import CONFIRMED, RACE, RECORDS
from accelbench.report.large.summaries import Summaries, Summary
from accelbench.schema import plan_file

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


@contextmanager
def newest(results: Path, summaries: Summaries) -> Iterator[tuple[Path, str]]:
    """A folder with the newest cells of the newest sweep, and a sentence that says what the page shows.

    The newest sweep is the one with the latest start of a record, by the clock of the machine that measured it.
    """
    started = [each for each in summaries.found if each.started_at is not None]
    last = max(started or summaries.found, key=_when)
    of_sweep = [each for each in summaries.found if each.folder == last.folder]
    shown = {each.name for each in sorted(of_sweep, key=_when, reverse=True)[:SHOWN]}
    num_folders = len({each.folder for each in summaries.found})
    part = "" if len(shown) == len(of_sweep) else f"the newest {len(shown):,} of the {len(of_sweep):,} cells of "
    sentence = (
        f"{counted(len(started), 'record')} of {counted(num_folders, 'sweep')} are too many for one page: it shows the "
        f"means of all, and "
        f"{part}the newest sweep, {last.folder.name}. cells.csv has every record."
    )
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
        yield view, sentence


def _when(summary: Summary) -> str:
    return summary.started_at or ""
