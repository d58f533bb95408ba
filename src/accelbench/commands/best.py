"""`accelbench best`: what to use, from records or by a search that measures; or the largest batch that fits."""

import math
import shlex
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from accelbench.commands.command import VERBOSE, Command, Context, flag
from accelbench.commands.records import FOLDER, default_folder
from accelbench.errors import UserError
from accelbench.presentation import seconds_of
from accelbench.project import workplace

if TYPE_CHECKING:
    from accelbench.answers.process import Process


def _run(chosen: Namespace, context: Context) -> int:
    _check(chosen)
    limit_ms = _limit(chosen.latency_ms)
    if not (chosen.search or chosen.largest_batch):
        return _show_best(next(iter(chosen.words), None), limit_ms, context)
    budget = "1m" if chosen.budget is None else chosen.budget
    budget_s = seconds_of(budget)
    if budget_s is None:
        raise UserError(f"--budget {budget}: should be a time such as 90s, 5m or 2h")
    words = ["-m"] * chosen.search + chosen.words + [VERBOSE] * chosen.verbose
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.compare.answer import terms
        from accelbench.search import largest_batch, search
        from accelbench.search.goal import Goal
        from accelbench.settings.compose import cells_of, compose, one_cell

        if chosen.largest_batch:
            return largest_batch.find(*one_cell(shlex.join(words)), context.console, hosts, budget_s)
        margin = terms(chosen.margin, None, anyway=False).margin
        goal = Goal(chosen.by or "throughput", limit_ms, margin, budget_s, chosen.per_batch)
        return search.search(*cells_of(compose(words)), goal, context.console, hosts)


def _check(chosen: Namespace) -> None:
    """Refuses flags and words that do not go together."""
    measures = chosen.search or chosen.largest_batch
    has_settings = any("=" in word for word in chosen.words)
    given = (name for name in ("margin", "by", "per_batch") if getattr(chosen, name))
    if chosen.search and chosen.largest_batch:
        raise UserError("--search: goes without --largest-batch")
    if chosen.search and chosen.budget is None:
        raise UserError("--search: needs --budget, the time that it may take, such as --budget 5m")
    if chosen.search and any("=" not in word for word in chosen.words):
        raise UserError("best --search: takes name=value,value, and no folder")
    if not chosen.search and (name := next(given, None)):
        raise UserError(f"--{name.replace('_', '-')}: goes with --search")
    if chosen.budget is not None and not measures:
        raise UserError("--budget: goes with --search and --largest-batch")
    if chosen.latency_ms is not None and chosen.largest_batch:
        raise UserError("--latency-ms: goes with records, and not with --largest-batch")
    if chosen.verbose and not measures:
        raise UserError("-v: goes with --search and --largest-batch; existing records are not measured again")
    if not measures and (len(chosen.words) > 1 or has_settings):
        raise UserError("best: takes one folder of records; name=value goes with --search or --largest-batch")


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
    from accelbench.settings import params
    from accelbench.sweep import terminal

    place, console = workplace(), context.console
    read = sweeps.read_all(place.root / (folder or default_folder(place, context)), params.costs(place.project))
    cells = [cell for sweep in read for cell in sweep.cells]
    planned = [process for sweep in read for process in sweep.planned]
    notes = [note for sweep in read for note in sweep.notes]
    found = answers(cells, limit_ms)
    if not found:
        _refuse(planned, limit_ms, notes)
    explained = []
    for each in found:
        chosen = chosen_of(each.group)
        console.print(terminal.sentence(each), soft_wrap=not console.is_terminal)
        if each.others:
            console.print(bars(each))
        if len(chosen) > 1 and (table := tabulate_known("", OF_ONE, chosen)) is not None:
            console.print(rendered(table))
            explained = [NOTE]
        for line in terminal.remarks(each, planned):
            console.print(line, soft_wrap=not console.is_terminal)
        console.print()
    searched = [line for sweep in read if sweep.race and limit_ms is None for line in sweep.race.answers]
    outside = [group for group in groups(cells) if group.within(limit_ms) is None]
    missing = [f"{workload_text(each.fastest)}: no cell is within {limit_ms:g} ms" for each in outside]
    for note in [*missing, *explained, *searched, *notes]:
        console.print(note, style="dim", markup=False)
    return 0


def _refuse(planned: "Sequence[Process]", limit_ms: float | None, notes: Sequence[str]) -> NoReturn:
    """Raises the reason why there is no answer."""
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
    run=_run,
    flags=(
        flag("words", nargs="*", metavar="folder", help=FOLDER),
        flag("--latency-ms", metavar="MS", help="leave out cells with a longer median latency (p50)"),
        flag("--largest-batch", help="find the largest batch that fits: measures the cell of name=value"),
        flag(
            "--search",
            help="find the best of all combinations of name=value,value within --budget; slow ones are dropped early",
        ),
        flag("--budget", metavar="5m", help="the time for --search, or for --largest-batch (1m); in s, m or h"),
        flag("--margin", metavar="2%", help="with --search: how much better another cell may be than the answer (2%%)"),
        flag(
            "--by",
            metavar="WHAT",
            choices=("throughput", "latency", "energy"),
            help="with --search: best by throughput (the default), latency or energy",
        ),
        flag("--per-batch", help="with --search: the best cell of each batch size, not of all"),
        flag("-v", "--verbose", help="with --search or --largest-batch: show what libraries print"),
    ),
    usage="[--latency-ms MS] [folder]\n"
    "       accelbench best --search --budget 5m [flags] name=value,value ...\n"
    "       accelbench best --largest-batch [--budget 1m] [-v] name=value ...",
    description="--search goes on with out=runs/mine (docs/finding-the-best.md); --largest-batch takes one cell.",
    takes_settings=True,
)
