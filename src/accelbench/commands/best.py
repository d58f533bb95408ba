"""`accelbench best`: the fastest setting, from records or by a search, or the largest batch that fits."""

import shlex
from argparse import Namespace

from rich.console import Console

from accelbench import presentation
from accelbench.commands.command import (
    BUDGET,
    FOLDER_HELP,
    PRICE,
    TARGET_FLAGS,
    TARGET_RULES,
    budget_in_s,
    check,
    command,
    costs,
    default_folder,
    find_target,
    flag,
    names_of,
    say,
    words_of,
)
from accelbench.errors import UserError
from accelbench.project import workplace
from accelbench.rules import Rule

# Settings that --serve decides.
DECIDED = {"protocol", "server.rate", "server.duration_s", "server.latency_ms"}
MODES = "--search, --serve, --target or --largest-batch"  # without one of these, `best` reads records
RULES = (
    *TARGET_RULES,
    Rule("other_mode", "{mode}: can't be used with {other_mode}"),
    Rule("latency_ms target", "--latency-ms: needs a folder of records, --search or --serve"),
    Rule("latency_ms largest_batch", "--latency-ms: needs a folder of records, --search or --serve"),
    Rule("latency_ms latency_ms<=0", "--latency-ms={latency_ms}: should be a number of milliseconds above 0"),
    Rule("latency_ms=inf,nan", "--latency-ms={latency_ms}: should be a number of milliseconds above 0"),
    Rule("percentile search", "--percentile: needs a folder of records or --serve"),
    Rule("percentile !latency_ms", "--percentile: needs --latency-ms, such as --latency-ms 50"),
    Rule("price_per_hour mode", "--price-per-hour: needs a folder of records"),
    Rule("budget !mode", f"--budget: needs {MODES}"),
    Rule("verbose !mode", f"--verbose: needs {MODES}"),
    Rule("margin !search", "--margin: needs --search"),
    Rule("by !search", "--by: needs --search"),
    Rule("search !budget", "--search: needs --budget, such as --budget 5m"),
    Rule("serve !latency_ms", "--serve: needs --latency-ms, such as --latency-ms 50"),
    Rule(
        "!mode not_a_folder",
        f"best: expects the folder of records. Settings such as model=cnn are only for {MODES}",
    ),
)


@command(
    "best",
    "recommend settings, from records or by measuring",
    flag("words", nargs="*", metavar="folder", help=FOLDER_HELP),
    flag(
        "--latency-ms",
        metavar="MS",
        type=float,
        help="limit in ms for the median step; with --serve: requests",
    ),
    flag(
        "--percentile",
        metavar="99",
        type=int,
        choices=(50, 90, 99),
        help="percentage of steps that keep --latency-ms: 50, 90 or 99 (50); with --serve: of requests (99)",
    ),
    PRICE,
    flag("--largest-batch", help="find the largest batch that fits into memory"),
    flag("--search", help="find the best of all combinations within --budget"),
    flag("--serve", help="find the most requests/s within --latency-ms"),
    *TARGET_FLAGS,
    BUDGET,
    flag("--margin", metavar="2%", help="with --search: differences that are ignored (2%%)"),
    flag(
        "--by",
        metavar="WHAT",
        choices=("throughput", "latency", "energy"),
        help="with --search: best by throughput (the default), latency or energy",
    ),
    flag("-v", "--verbose", help="with what measures: show what libraries print"),
    usage="[flags] [folder]\n"
    "       accelbench best --search --budget 5m [flags] name=value,value ...\n"
    "       accelbench best --serve --latency-ms MS [--budget 3m] name=value ...\n"
    "       accelbench best --target 0.97 [--budget 10m] name=value,value ...\n"
    "       accelbench best --largest-batch [--budget 1m] [-v] name=value ...",
    description="--search and --serve can be continued (see out= in docs/finding-the-best.md).",
    takes_settings=True,
)
def best(chosen: Namespace, console: Console) -> int:
    """Recommends settings from records, or by the search that a flag names."""
    settings = ["=" in word for word in chosen.words]
    chosen.not_a_folder = any(settings) or len(settings) > 1
    modes = {
        "--search": chosen.search,
        "--serve": chosen.serve,
        "--target": chosen.target is not None,
        "--largest-batch": chosen.largest_batch,
    }
    chosen.mode, chosen.other_mode, *_ = [
        *(name for name, is_chosen in modes.items() if is_chosen),
        None,
        None,
    ]
    check(chosen, RULES)
    if chosen.mode is None:
        return _show_best(chosen, console)
    if chosen.target is not None:
        return find_target([shlex.join(chosen.words)], chosen, console)
    budget_s = budget_in_s(chosen, "3m" if chosen.serve else "1m")
    words = words_of(chosen)
    if chosen.serve:
        words = [*_words_of_server(chosen), *words]
    from accelbench.answers.comparison import terms
    from accelbench.isolation.hosts import Hosts
    from accelbench.search import largest_batch, race, serving
    from accelbench.settings.compose import cells_of, compose, one_cell

    with Hosts() as hosts:
        if chosen.largest_batch:
            return largest_batch.find(*one_cell(shlex.join(words)), console, hosts, budget_s)
        if chosen.serve:
            return serving.search(*cells_of(compose(["-m", *words])), budget_s, console, hosts)
        margin = terms(chosen.margin, None, anyway=False).margin
        goal = race.Goal(chosen.by or "throughput", chosen.latency_ms, margin, budget_s)
        return race.search(*cells_of(compose(["-m", *words])), goal, console, hosts)


def _words_of_server(chosen: Namespace) -> list[str]:
    """Returns the settings that --serve, --latency-ms and --percentile stand for."""
    names = names_of(chosen.words)
    if refused := names & DECIDED:
        raise UserError(f"{min(refused)}: --serve decides it: leave it out")
    if chosen.percentile and "server.percentile" in names:
        raise UserError("--percentile: can't be used with server.percentile: give one of them")
    # 140 s are enough for p99.9 at the default rate. The search decides rate and duration of each probe.
    decided = f"server.percentile={chosen.percentile or 99}"
    if "server.percentile" in names:
        decided = "server.duration_s=140"
    return ["protocol=server", f"server.latency_ms={chosen.latency_ms}", decided]


def _show_best(chosen: Namespace, console: Console) -> int:
    from accelbench.answers.cells import NOT_RUN
    from accelbench.answers.headline import beside_speeds, tips
    from accelbench.answers.jobs import Limit, choices, jobs
    from accelbench.answers.words import disturbed_text
    from accelbench.judging.costs import price_notes
    from accelbench.report import read as sweeps
    from accelbench.report.table import BEST, BEST_NOTE, rendered, tabulate_known
    from accelbench.settings import params
    from accelbench.sweep import terminal

    place = workplace()
    prices = costs(chosen, place.project)
    results = place.root / (chosen.words[0] if chosen.words else default_folder(place, console))
    limit = None if chosen.latency_ms is None else Limit(chosen.latency_ms, chosen.percentile or 50)
    read = sweeps.read_all(results, prices, params.wanted_suites(place.project, results))
    cells = sweeps.cells_in(read)
    planned = [process for sweep in read for process in sweep.planned]
    notes = [note for sweep in read for note in sweep.notes]
    notes += price_notes((cell.row for cell in cells), prices)
    notes += [f"{cell.label}: {disturbed_text(cell)}" for cell in cells if cell.disturbed]
    if num := sum(process.outcome == NOT_RUN for process in planned):
        notes.append(f"{num} of {len(planned)} planned processes have not run yet")
    speeds = beside_speeds(cells) if limit is None else []
    answered = jobs(cells, limit)
    if not answered and not speeds:
        say(
            console, "best: no ok cell" + ("" if limit is None else f" is known to be within {limit}"), *notes
        )
        return 1
    say(console, *speeds)
    terminal.show_answers(answered, console)
    chosen_cells = [choice for job in answered for choice in choices(job)]
    table = tabulate_known("", BEST, chosen_cells)
    if table is not None and (len(chosen_cells) > len(answered) or chosen.price_per_hour):
        console.print(rendered(table, console.width))
        notes.insert(0, BEST_NOTE)
    if limit is None:
        notes += [line for sweep in read for line in sweep.answers]
    for note in [*tips(cells), *notes]:
        presentation.say(console, note, "dim")
    return 0
