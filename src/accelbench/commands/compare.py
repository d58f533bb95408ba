"""`accelbench compare`, `regressions`, `bisect` and `selfcheck`: is B as fast as A, and which commit changed it?"""

import math
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from accelbench import project
from accelbench.commands.command import (
    BUDGET,
    TARGET_FLAGS,
    TARGET_RULES,
    VERBOSE,
    budget_in_s,
    check,
    command,
    default_folder,
    find_target,
    flag,
    say,
    say_notes,
    words_of,
)
from accelbench.errors import UserError
from accelbench.presentation import duration
from accelbench.rules import Rule
from accelbench.schema.cell import UNEXPECTED

if TYPE_CHECKING:
    from accelbench.answers.comparison import Terms

COMPARE = """\
Compares cells with the same settings. If A and B share no cell, it ignores settings for which A and B have no value \
in common, such as the engine. The verdict depends on the 95 % interval of how much B's samples/s differ from A's:
  same            the whole interval lies within the margin
  faster, slower  otherwise, if the whole interval lies above 0, or below 0
  can't tell      in other cases, or with under 5 interleaved processes each
"""
BISECT = """\
Halves the commits between GOOD and BAD. Each commit is measured in a worktree, in processes interleaved with GOOD's. \
It counts as slow if it is slowed down more than half as much as BAD. It gets more processes until its 95 % interval \
decides this. Commits that do not run are skipped. Uncommitted changes are ignored.
If the search was stopped, the same command continues it.
"""
MAX_MINUTES = 120  # of selfcheck
RULES = (
    *TARGET_RULES,
    Rule("target !run", "--target: needs --run, which trains both sides to the target"),
    Rule("budget !target !top", "--budget: needs --top, or --run --target"),
    Rule("top run", "--top: can't be used with --run, because --top measures the best cells of a folder"),
    Rule("top others", "--top: expects one folder of records"),
    Rule("top target", "--top: can't be used with --target"),
    Rule("top repeats", "--top: can't be used with --repeats"),
    Rule("top margin", "--top: can't be used with --margin"),
    Rule("top fail_if", "--top: can't be used with --fail-if"),
    Rule("!top !first", "compare: expects A and B, which are folders of records, or cells with --run"),
    Rule(
        "target repeats", "--repeats: can't be used with --target: use --seeds to set the number of trainings"
    ),
    Rule("target margin", "--margin: can't be used with --target"),
    Rule("target fail_if", "--fail-if: can't be used with --target"),
    Rule("verbose !run", "-v: needs --run: records are not measured again"),
    Rule("repeats !run", "--repeats: needs --run: records are not measured again"),
)


@command(
    "compare",
    "test whether B is as fast as A: same, faster, slower or can't tell",
    flag("--run", help="measure A and B, which are cells, each in quotes"),
    flag("--top", help="measure the best cells of folder A again, interleaved"),
    flag("--repeats", metavar="N", type=int, help="with --run: number of processes of each cell (5)"),
    *TARGET_FLAGS,
    flag("--budget", metavar="5m", help="with --top or --target: how long it may take (s, m, h)"),
    flag("--margin", metavar="2%", help="differences that count as the same (2%%)"),
    flag("--fail-if", metavar="slower:5%", help="exit 1 if B is surely over 5 %% slower, 2 if undecided"),
    flag("--anyway", help="also compare different work; exit 0 if undecided"),
    flag("-v", "--verbose", help="with --run: show what the cells' libraries print"),
    flag(
        "first",
        metavar="A",
        nargs="?",
        help="a folder of records, a suite, a record's file, or FOLDER@WORD: the records in FOLDER "
        "(default: results) whose git revision or branch is WORD",
    ),
    flag("others", metavar="B", nargs="*", help="like A; not needed if A is a folder that --run has made"),
    usage="[flags] A [B]\n"
    "       accelbench compare --run [flags] A B\n"
    "       accelbench compare --top [--budget 5m] [A]",
    description=COMPARE,
)
def compare(chosen: Namespace, console: Console) -> int:
    """Compares records of A and B, or measures both."""
    from accelbench.answers import comparison
    from accelbench.sweep import interleaved

    check(chosen, RULES)
    if chosen.top:
        return _measure_top(chosen, console)
    names = [chosen.first, *chosen.others]
    anyway = chosen.anyway or chosen.run or len(names) == 1
    terms = comparison.terms(chosen.margin, chosen.fail_if, anyway=anyway, may_pass_undecided=chosen.anyway)
    if len(names) > 2 or (chosen.run and len(names) < 2):
        raise UserError(
            f"compare: expects A and B, but {len(names)} were given. Put words with spaces in quotes"
        )
    if chosen.target is not None:
        return find_target(names, chosen, console)
    if chosen.run:
        return _measure(names, chosen, terms, console)
    kept = interleaved.load_comparison(Path(names[0])) if len(names) == 1 else None
    first, second = kept or map(comparison.find, names)
    return comparison.answer(first, second, terms, console)


def _measure_top(chosen: Namespace, console: Console) -> int:
    """Measures the best cells of a folder's answers again, interleaved. `best` and `report` use these records."""
    from accelbench.isolation.hosts import Hosts
    from accelbench.report import read
    from accelbench.search import top
    from accelbench.settings import params

    place = project.workplace()
    folder = place.root / (chosen.first or default_folder(place, console))
    sweeps = read.read_all(folder, wanted=params.wanted_suites(place.project, folder))
    questions = top.questions(sweeps, budget_in_s(chosen, "5m"))
    say_notes(console, sweeps)
    name = project.shown(folder)
    if not questions:
        too_long = top.questions(sweeps, math.inf)
        why = "no fastest cell of a job has another ok cell of its batch size that is not interleaved with it yet"
        if too_long:
            why = f"--budget is too short: the comparison takes about {duration(too_long[0].cost_s)}"
        raise UserError(f"{name}: no two cells to compare: {why}")
    with Hosts() as hosts:
        records = top.answer(questions, read.confirmed_of(folder), console, hosts)
    say(console, f"Counted by: accelbench best {name}")
    return int(any(record.status in UNEXPECTED for record in records))


def _measure(names: list[str], chosen: Namespace, terms: "Terms", console: Console) -> int:
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.answers import comparison
        from accelbench.settings.compose import one_cell
        from accelbench.sweep import interleaved
        from accelbench.sweep import run as sweep

        asked = [one_cell(f"{name} {VERBOSE}" if chosen.verbose else name) for name in names]
        runs, options = interleaved.plan_runs(asked[0], asked[1], chosen.repeats, project.workplace().root)
        if why := interleaved.why_pointless([[cell] for cell, _ in asked]):
            say(console, why)
            comparison.check_decided([], terms)
            return 0
        result = sweep.run(runs.cells, options, console, hosts=hosts)
    interleaved.save_comparison(runs, (names[0], names[1]), result.records, result.folder)
    result.check_request()
    if result.num_unexpected:  # a failure decides the exit status
        terms = replace(terms, max_slower=None)
    status = comparison.answer(*interleaved.load_comparison(result.folder), terms, console)
    return 1 if result.num_unexpected else status


@command(
    "regressions",
    "former name of `compare FOLDER@REV1 FOLDER@REV2`",
    flag("range", metavar="[FOLDER]@REV1..REV2", help="two git revisions of the records in FOLDER (results)"),
    usage="[FOLDER]@REV1..REV2",
)
def regressions(chosen: Namespace, console: Console) -> int:
    """Compares two revisions. The next release has no such command."""
    from accelbench.answers import comparison

    folder, sign, revisions = chosen.range.rpartition("@")
    names = [f"{folder}@{word}" for word in revisions.split("..") if word]
    if not sign or len(names) != 2:
        raise UserError(
            f"regressions: expects two revisions, such as results@1f3c9ab..77d0e2c, not {chosen.range}"
        )
    now = f"accelbench compare {' '.join(names)} --fail-if slower:0%"
    say(console, f"The next release has no `regressions`: type {now}")
    terms = comparison.Terms(max_slower=0.0)
    first, second = map(comparison.find, names)
    return comparison.answer(first, second, terms, console)


@command(
    "bisect",
    "find the commit that made a cell slower",
    BUDGET,
    flag("-v", "--verbose", help="show what the cell's libraries print"),
    flag("good", metavar="GOOD", help="a fast commit, which is an ancestor of BAD"),
    flag("bad", metavar="BAD", help="a slower commit, such as HEAD"),
    flag("words", metavar="name=value", nargs="*", help="the cell, with model=custom model.target=pkg.Net"),
    usage="[--budget 15m] [-v] GOOD BAD -- name=value ...",
    description=BISECT,
    takes_settings=True,
)
def bisect(chosen: Namespace, console: Console) -> int:
    """Searches the commits between GOOD and BAD."""
    budget_s = budget_in_s(chosen, "15m")
    from accelbench.lifeline import ending_as_ctrl_c
    from accelbench.search.bisect import bisect

    with ending_as_ctrl_c():  # so that the search removes its worktrees
        return bisect(chosen.good, chosen.bad, words_of(chosen), budget_s, console)


@command(
    "selfcheck",
    "measure how small a difference this machine can tell",
    BUDGET,
    description="Compares a small network with itself, in ten interleaved rounds (at most 10m).",
)
def selfcheck(chosen: Namespace, console: Console) -> int:
    """Compares equal cells."""
    budget_s = budget_in_s(chosen, "10m")
    if budget_s > 60 * MAX_MINUTES:
        raise UserError(f"--budget {chosen.budget}: should be at most {MAX_MINUTES}m")
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.doctor import selfcheck

        return selfcheck(budget_s, console, hosts)
