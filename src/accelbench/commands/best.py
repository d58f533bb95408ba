"""`accelbench best`: what to use, from records or by a search that measures; or the largest batch that fits."""

import math
import shlex
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from accelbench.commands.command import VERBOSE, Command, Context
from accelbench.commands.records import default_folder
from accelbench.errors import UserError
from accelbench.presentation import seconds_of
from accelbench.project import workplace
from accelbench.settings.parser import Parser

if TYPE_CHECKING:
    from accelbench.answers.process import Process


def _add_flags(parser: Parser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="folder",
        help="records: results (a project's default), or a folder under runs/ (else the newest)",
    )
    parser.add_argument("--latency-ms", metavar="MS", help="leave out cells with a longer median latency (p50)")
    parser.add_argument(
        "--largest-batch", action="store_true", help="find the largest batch that fits: measures the cell of name=value"
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="find the best of all combinations of name=value,value within --budget; slow ones are dropped early",
    )
    parser.add_argument(
        "--budget", metavar="5m", help="the time for --search, or for --largest-batch (1m); in s, m or h"
    )
    parser.add_argument(
        "--margin", metavar="2%", help="with --search: by how much another cell may be better than the answer (2%%)"
    )
    parser.add_argument(
        "--by",
        metavar="WHAT",
        choices=("throughput", "latency", "energy"),
        help="with --search: best by throughput (the default), latency or energy",
    )
    parser.add_argument(
        "--per-batch", action="store_true", help="with --search: the best cell of each batch size, not of all"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="with --search or --largest-batch: show what libraries print"
    )


def _run(chosen: Namespace, context: Context) -> int:
    if chosen.search:
        return _search(chosen, context)
    for flag in ("margin", "by", "per_batch"):
        if getattr(chosen, flag):
            raise UserError(f"--{flag.replace('_', '-')}: goes with --search")
    if chosen.budget is not None and not chosen.largest_batch:
        raise UserError("--budget: goes with --search and --largest-batch")
    if chosen.largest_batch:
        if chosen.latency_ms is not None:
            raise UserError("--latency-ms: goes with records, and not with --largest-batch")
        budget_s = _seconds(chosen.budget or "1m")
        words = [*chosen.words, VERBOSE] if chosen.verbose else chosen.words
        from accelbench.sweep import early

        with early.hosts(words) as hosts:
            # Imported while the host starts.
            from accelbench.search import largest_batch
            from accelbench.settings.compose import one_cell

            return largest_batch.find(*one_cell(shlex.join(words)), context.console, hosts, budget_s)
    if chosen.verbose:
        raise UserError("-v: goes with --search and --largest-batch; existing records are not measured again")
    if len(chosen.words) > 1 or any("=" in word for word in chosen.words):
        raise UserError("best: takes one folder of records; name=value goes with --search or --largest-batch")
    return _show_best(next(iter(chosen.words), None), _limit(chosen.latency_ms), context)


def _search(chosen: Namespace, context: Context) -> int:
    if chosen.largest_batch:
        raise UserError("--search: goes without --largest-batch")
    budget_s = _seconds(chosen.budget)
    if any("=" not in word for word in chosen.words):
        raise UserError("best --search: takes name=value,value, and no folder")
    words = ["-m", *chosen.words, *[VERBOSE] * chosen.verbose]
    from accelbench.sweep import early

    with early.hosts(words) as hosts:
        # Imported while the host starts.
        from accelbench.compare.answer import terms
        from accelbench.search import search
        from accelbench.search.goal import Goal
        from accelbench.settings.compose import cells_of, compose

        by = chosen.by or "throughput"
        margin = terms(chosen.margin, None, anyway=False).margin
        goal = Goal(by, _limit(chosen.latency_ms), margin, budget_s, chosen.per_batch)
        return search.search(*cells_of(compose(words)), goal, context.console, hosts)


def _seconds(budget: str | None) -> float:
    """The seconds that the user wrote, such as `90s`, `5m` or `2h`."""
    if budget is None:
        raise UserError("--search: needs --budget, the time that it may take, such as --budget 5m")
    found = seconds_of(budget)
    if found is None:
        raise UserError(f"--budget {budget}: should be a time such as 90s, 5m or 2h")
    return found


def _limit(latency_ms: str | None) -> float | None:
    try:
        limit = None if latency_ms is None else float(latency_ms)
    except ValueError as error:
        raise UserError(f"--latency-ms={latency_ms}: should be a number of milliseconds") from error
    if limit is not None and not 0 < limit < math.inf:
        raise UserError(f"--latency-ms={latency_ms}: should be a number of milliseconds above 0")
    return limit


def _show_best(folder: str | None, limit_ms: float | None, context: Context) -> int:
    from accelbench.answers.groups import groups
    from accelbench.answers.ranking import answers
    from accelbench.answers.words import workload_text
    from accelbench.report import read as sweeps
    from accelbench.report.tables.best import NOTE, OF_ONE, chosen_of
    from accelbench.report.tables.on_terminal import bars, rendered
    from accelbench.report.tables.table import tabulate_known
    from accelbench.schema.text import clean
    from accelbench.settings import params
    from accelbench.sweep import terminal

    place, console = workplace(), context.console
    name, which = (folder, "") if folder else default_folder(place)
    if which:
        console.print(clean(which), markup=False, soft_wrap=True)
    read = sweeps.read_all(place.root / name, params.costs(place.project))
    cells = [cell for sweep in read for cell in sweep.cells]
    planned = [process for sweep in read for process in sweep.planned]
    notes = [note for sweep in read for note in sweep.notes]
    found = answers(cells, limit_ms)
    if not found:
        _refuse(planned, limit_ms, notes)
    is_explained = False
    for each in found:
        chosen = chosen_of(each.group)
        console.print(terminal.sentence(each), soft_wrap=not console.is_terminal)
        if each.others:
            console.print(bars(each))
        if len(chosen) > 1 and (table := tabulate_known("", OF_ONE, chosen)) is not None:
            console.print(rendered(table))
            is_explained = True
        for line in terminal.remarks(each, planned):
            console.print(line, soft_wrap=not console.is_terminal)
        console.print()
    searched = [line for sweep in read if sweep.race and limit_ms is None for line in sweep.race.answers]
    outside = [group for group in groups(cells) if group.within(limit_ms) is None]
    missing = [f"{workload_text(each.fastest)}: no cell is within {limit_ms:g} ms" for each in outside]
    for note in [*missing, *([NOTE] if is_explained else []), *searched, *notes]:
        console.print(note, style="dim", markup=False)
    return 0


def _refuse(planned: "Sequence[Process]", limit_ms: float | None, notes: Sequence[str]) -> NoReturn:
    """Says why there is no answer.

    Raises:
        UserError: always.
    """
    from accelbench.presentation import counted

    problems = [each.problem for each in planned if each.problem]
    if problems and not any(each.record for each in planned):
        num = counted(len(problems), "record")
        raise UserError(f"best: {num}, none of which can be read; the first: {problems[0]}")
    problem = "best: no ok cell" + ("" if limit_ms is None else f" is within {limit_ms:g} ms")
    raise UserError("\n  ".join([problem, *notes]))


COMMAND = Command(
    name="best",
    summary="say what to use, from records; or find it by measuring",
    add_flags=_add_flags,
    run=_run,
    usage="[--latency-ms MS] [folder]\n"
    "       accelbench best --search --budget 5m [flags] name=value,value ...\n"
    "       accelbench best --largest-batch [--budget 1m] [-v] name=value ...",
    description="--search goes on with out=runs/mine (docs/finding-the-best.md); --largest-batch takes one cell.",
    takes_settings=True,
)
