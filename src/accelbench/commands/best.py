"""`accelbench best`: what to use, from records or by a search that measures; or the largest batch that fits."""

import math
import shlex
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from accelbench.commands import to_target
from accelbench.commands.budget import budget_in_s
from accelbench.commands.command import VERBOSE, Command, Context, flag
from accelbench.commands.records import FOLDER, PRICE, check_devices, costs, default_folder
from accelbench.errors import UserError
from accelbench.presentation import counted, say
from accelbench.project import workplace

DECIDED = {"protocol", "server.rate", "server.duration_s", "server.latency_ms"}  # settings that --serve gives
MOST_PERCENTILE = 99.9  # of --serve: beyond it a probe takes 50,000 requests
MODES = ("--search", "--serve", "--target", "--largest-batch")  # without one, records are read
# Flag -> the modes that it goes with; the empty one is without a mode.
GOES_WITH = {
    "--latency-ms": ("", "--search", "--serve"),
    "--percentile": ("", "--serve"),
    "--price-per-hour": ("",),
    **dict.fromkeys(("--budget", "--verbose"), MODES),
    **dict.fromkeys(("--margin", "--by", "--per-batch"), ("--search",)),
}
NEEDS = {"--search": "--budget 5m", "--serve": "--latency-ms 50", "--percentile": "--latency-ms 50"}

if TYPE_CHECKING:
    from accelbench.answers.cells import MeasuredCell
    from accelbench.answers.groups import Limit


def _run(chosen: Namespace, context: Context) -> int:
    _check(chosen)
    limit_ms = chosen.latency_ms
    if limit_ms is not None and not 0 < limit_ms < math.inf:
        raise UserError(f"--latency-ms={limit_ms:g}: should be a number of milliseconds above 0")
    if chosen.serve:
        return _serve(chosen, context)
    if chosen.target is not None:
        return to_target.run([shlex.join(chosen.words)], chosen, context)
    if not (chosen.search or chosen.largest_batch):
        return _show_best(chosen, context)
    budget_s = budget_in_s(chosen, "1m")
    words = ["-m"] * chosen.search + chosen.words + [VERBOSE] * chosen.verbose
    from accelbench.compare.comparison import terms
    from accelbench.isolation.hosts import Hosts
    from accelbench.search import largest_batch, search
    from accelbench.settings.compose import cells_of, compose, one_cell

    with Hosts() as hosts:
        if chosen.largest_batch:
            return largest_batch.find(*one_cell(shlex.join(words)), context.console, hosts, budget_s)
        margin = terms(chosen.margin, None, anyway=False).margin
        goal = search.Goal(chosen.by or "throughput", limit_ms, margin, budget_s, chosen.per_batch)
        return search.search(*cells_of(compose(words)), goal, context.console, hosts)


def _serve(chosen: Namespace, context: Context) -> int:
    """Searches for the most requests per second within --latency-ms."""
    from accelbench.isolation.hosts import Hosts
    from accelbench.search import serving
    from accelbench.settings.compose import cells_of, compose

    given = {word.partition("=")[0] for word in chosen.words}
    if refused := given & DECIDED:
        raise UserError(f"{min(refused)}: --serve decides it: leave it out")
    if chosen.percentile and "server.percentile" in given:
        raise UserError("--percentile: goes without server.percentile: give one of them")
    limit = f"server.latency_ms={chosen.latency_ms}"
    # 120 s are enough for p99.9 at the default rate: the search gives each probe a rate and a duration.
    share = "server.duration_s=120" if "server.percentile" in given else f"server.percentile={chosen.percentile or 99}"
    composed = compose(["-m", "protocol=server", limit, share, *chosen.words] + [VERBOSE] * chosen.verbose)
    for run in composed:
        if run.server.percentile > MOST_PERCENTILE:
            raise UserError(f"server.percentile={run.server.percentile:g}: --serve takes at most {MOST_PERCENTILE}")
        if run.timeout_s < (enough_s := 1.5 * run.server.duration_s):
            raise UserError(f"timeout_s={run.timeout_s:g}: too short for --serve: use timeout_s={enough_s:g}")
    budget_s = budget_in_s(chosen, "3m")
    with Hosts() as hosts:
        return serving.search(*cells_of(composed), budget_s, context.console, hosts)


def _check(chosen: Namespace) -> None:
    """Refuses flags and words that do not go together."""
    to_target.check(chosen)
    flags = (*MODES, *GOES_WITH)
    given = {each for each in flags if getattr(chosen, each[2:].replace("-", "_")) not in (None, False)}
    modes = [each for each in MODES if each in given]
    mode = modes[0] if modes else ""
    if len(modes) > 1:
        raise UserError(f"{mode}: goes without {modes[1]}")
    for name, allowed in GOES_WITH.items():
        if name in given and mode not in allowed:
            raise UserError(f"{name}: goes with {' or '.join(each or 'a folder of records' for each in allowed)}")
    for name, needed in NEEDS.items():
        if name in given and (other := needed.partition(" ")[0]) not in given:
            raise UserError(f"{name}: needs {other}, such as {needed}")
    settings = ["=" in word for word in chosen.words]
    if mode and not all(settings):
        raise UserError(f"best {mode}: takes name=value,value, and no folder")
    if not mode and (len(settings) > 1 or any(settings)):
        raise UserError(f"best: takes one folder of records; name=value goes with {' or '.join(MODES)}")


def _show_best(chosen: Namespace, context: Context) -> int:
    from accelbench.answers.groups import Limit, choices, groups
    from accelbench.answers.headline import beside_speeds, tips
    from accelbench.answers.sentences import answers
    from accelbench.answers.words import disturbed_text, workload_text
    from accelbench.judging.costs import price_notes
    from accelbench.report import read as sweeps
    from accelbench.report.tables.best import NOTE, OF_ONE
    from accelbench.report.tables.table import bars, rendered, tabulate_known
    from accelbench.settings import params
    from accelbench.sweep import terminal

    place, console = workplace(), context.console
    prices = costs(chosen, place.project)
    results = place.root / (next(iter(chosen.words), None) or default_folder(place, context))
    limit = None if chosen.latency_ms is None else Limit(chosen.latency_ms, chosen.percentile or 50)
    read = sweeps.read_all(results, prices, params.wanted_suites(place.project, results))
    check_devices(chosen, context, read)
    cells = [cell for sweep in read for cell in sweep.cells]
    planned = [process for sweep in read for process in sweep.planned]
    notes = [note for sweep in read for note in sweep.notes]
    notes += [*_of_unknown_latency(cells, limit), *price_notes((cell.row for cell in cells), prices)]
    notes += [f"{cell.label}: {disturbed_text(cell)}" for cell in cells if cell.disturbed]
    told = beside_speeds(cells) if limit is None else []
    found = answers(cells, limit)
    if not found and not told:
        problem = "best: no ok cell" + ("" if limit is None else f" is within {limit}")
        unread = [each.problem for each in planned if each.problem]
        context.say("\n  ".join([problem, *unread[:1], *notes]))
        return 1
    explained = []
    for text in told:
        say(console, f"{text}\n")
    for each in found:
        best = choices(each.group)
        say(console, terminal.sentence(each))
        if each.others:
            console.print(bars(each))
        if (len(best) > 1 or chosen.price_per_hour) and (table := tabulate_known("", OF_ONE, best)) is not None:
            console.print(rendered(table, console.width))
            explained = [NOTE]
        for line in terminal.remarks(each, planned):
            say(console, line)
        console.print()
    searched = [line for sweep in read if sweep.race and limit is None for line in sweep.race.answers]
    outside = [group for group in groups(cells) if group.within(limit) is None]
    missing = [f"{workload_text(each.fastest)}: no cell is within {limit}" for each in outside]
    for note in [*missing, *explained, *searched, *tips(cells), *notes]:
        say(console, note, "dim")
    return 0


def _of_unknown_latency(cells: "Sequence[MeasuredCell]", limit: "Limit | None") -> list[str]:
    """A line that counts the ok cells whose limited latency is unknown, and says what would tell it."""
    from accelbench.stats.order_statistics import NUM_SAMPLES_FOR

    num = 0 if limit is None else sum(bool(each.speed) and each.number(limit.column) is None for each in cells)
    if limit is None or not num:
        return []
    why = f"p{limit.percentile} is unknown below {NUM_SAMPLES_FOR[limit.percentile]} single steps"
    return [f"{counted(num, 'cell')} not counted: {why}; window.latency_s and window.latency_steps give a cell more"]


COMMAND = Command(
    name="best",
    summary="say what to use, from records; or find it by measuring",
    run=_run,
    flags=(
        flag("words", nargs="*", metavar="folder", help=FOLDER),
        flag("--latency-ms", metavar="MS", type=float, help="limit of a median step; with --serve of a request"),
        flag(
            "--percentile",
            metavar="99",
            type=int,
            choices=(50, 90, 99),
            help="with --latency-ms: 50 (default), 90 or 99 %% of the steps; with --serve of the requests (99)",
        ),
        PRICE,
        flag("--largest-batch", help="find the largest batch that fits into memory"),
        flag("--search", help="find the best of all combinations within --budget"),
        flag("--serve", help="find the most requests/s within --latency-ms"),
        *to_target.FLAGS,
        flag("--margin", metavar="2%", help="with --search: difference that does not count (2%%)"),
        flag(
            "--by",
            metavar="WHAT",
            choices=("throughput", "latency", "energy"),
            help="with --search: best by throughput (the default), latency or energy",
        ),
        flag("--per-batch", help="with --search: the best cell of each batch size"),
        flag("-v", "--verbose", help="with what measures: show what libraries print"),
    ),
    usage="[flags] [folder]\n"
    "       accelbench best --search --budget 5m [flags] name=value,value ...\n"
    "       accelbench best --serve --latency-ms MS [--budget 3m] name=value ...\n"
    "       accelbench best --target 0.97 [--budget 10m] name=value,value ...\n"
    "       accelbench best --largest-batch [--budget 1m] [-v] name=value ...",
    description="--search and --serve go on with out=runs/mine: docs/finding-the-best.md",
    takes_settings=True,
)
