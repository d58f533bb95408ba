"""`accelbench compare`: whether B is as fast as A; `regressions`: which cells changed between two revisions."""

import dataclasses
import json
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench import project
from accelbench.commands.command import VERBOSE, Command, Context, flag
from accelbench.errors import UserError

if TYPE_CHECKING:
    from accelbench.compare.regressions import CellChange

MAX_SHOWN = 20  # cells of which nothing can be told
DESCRIPTION = """\
Pairs cells that are equal, or equal but for the settings in which A and B differ throughout. \
The 95 % interval of B's samples/s over A's, less 1, is a bootstrap over 5 fresh processes of each, \
interleaved (A and B alternate, so that drift affects both alike).
  same        the interval lies within the margin
  faster      else, if it lies above 0; slower: else, if it lies below 0
  can't tell  else; also with fewer than 5 processes, or on one machine if not interleaved
"""


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.compare import answer, record_sets
    from accelbench.sweep import interleaved

    names = [chosen.first, *chosen.others]
    terms = answer.terms(chosen.margin, chosen.fail_if, anyway=chosen.anyway or chosen.run or len(names) == 1)
    if len(names) not in ((2,) if chosen.run else (1, 2)):
        raise UserError(f"compare: takes A and B, {len(names)} given; words with spaces go in quotes")
    if not chosen.run and (chosen.verbose or chosen.repeats is not None):
        raise UserError(f"{'-v' if chosen.verbose else '--repeats'}: goes with --run; records are not measured again")
    place = project.workplace()
    if not chosen.run and len(names) == 1:
        return answer.answer(*interleaved.load_comparison(Path(names[0])), terms, context.console)
    if not chosen.run:
        first, second = (record_sets.find(name, place.root, place.records) for name in names)
        return answer.answer(first, second, terms, context.console)
    shown = f" {VERBOSE}" if chosen.verbose else ""
    words = [names[0] + shown, names[1] + shown]
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.settings.compose import one_cell
        from accelbench.sweep import run as sweep

        runs, options = interleaved.plan_runs(one_cell(words[0]), one_cell(words[1]), chosen.repeats, place.root)
        result = sweep.run(runs.cells, options, context.console, hosts=hosts)
    interleaved.save_comparison(runs, (names[0], names[1]), result.records, result.folder)
    result.check_request()
    status = answer.answer(*interleaved.load_comparison(result.folder), terms, context.console)
    return 1 if result.num_unexpected else status


def _regressions(chosen: Namespace, context: Context) -> int:
    from accelbench.compare import answer, record_sets
    from accelbench.compare.regressions import Change, changes

    folder, _, revisions = chosen.range.rpartition("@")
    first, dots, second = revisions.partition("..")
    if "@" not in chosen.range or not (first and dots and second):
        raise UserError(f"regressions: takes two revisions, such as results@1f3c9ab..77d0e2c, not {chosen.range}")
    place = project.workplace()
    sets = [record_sets.find(f"{folder}@{word}", place.root, place.records) for word in (first, second)]
    for found, word in zip(sets, (first, second), strict=True):
        if found.selection != record_sets.Selection.revision:
            raise UserError(f"regressions: {word} is no git revision or branch of these records")
    if len({machine for found in sets for machine in answer.machines(found)}) > 1:
        raise UserError("regressions: the records come from several machines; `accelbench compare` compares machines")
    compared = answer.compared(sets[0], sets[1], answer.terms(None, None, anyway=chosen.anyway))
    if compared.matching.varied:
        raise UserError(
            f"regressions: the revisions share no cell: they differ in {', '.join(compared.matching.varied)}"
        )
    told = changes([pair for pair, _ in compared.pairs], anyway=chosen.anyway)
    notes = [f"{found.name}: {answer.described(found)}" for found in sets] + compared.warnings
    if compared.matching.num_unpaired:
        notes.append(f"{compared.matching.num_unpaired} cells only one of the revisions has")
    if chosen.json:
        print(json.dumps({"cells": [dataclasses.asdict(each) for each in told], "notes": notes}, indent=1))
    else:
        context.say(*_lines(told), *notes)
    if all(each.change == Change.cant_tell for each in told):
        raise UserError("regressions: no cell could be tested; docs/comparing.md says how to measure two revisions")
    return int(any(each.change in (Change.failed, Change.slower) for each in told))


def _lines(found: "list[CellChange]") -> list[str]:
    from accelbench.compare.regressions import Change

    counts = Counter(each.change for each in found)
    lines = [", ".join(f"{counts[change]} {change}" for change in Change if counts[change]) or "nothing ran"]
    for each in found:
        if each.change in (Change.slower, Change.faster):
            percents = [f"{100 * (value - 1):+.1f} %" for value in (each.ratio, each.low, each.high) if value]
            lines.append(f"  {each.label:<42} {each.change:<8}{percents[0]} ({percents[1]} to {percents[2]})")
        elif each.change == Change.failed:
            lines.append(f"  {each.label:<42} {each.change:<8}at the second revision: {each.why}")
    unknown = [f"  {each.label:<42} {each.change}: {each.why}" for each in found if each.change == Change.cant_tell]
    lines += unknown[:MAX_SHOWN]
    if len(unknown) > MAX_SHOWN:
        lines.append(f"  and {len(unknown) - MAX_SHOWN} more that can't be told")
    return lines


COMMANDS = (
    Command(
        name="compare",
        summary="say whether B is as fast as A: same, faster, slower or can't tell",
        run=_run,
        flags=(
            flag("--run", help="A and B are cells, each in quotes: measure them interleaved"),
            flag("--repeats", metavar="N", help="with --run: fresh processes of each cell (5)"),
            flag("--margin", metavar="2%", help="differences that count as the same (2%%)"),
            flag("--fail-if", metavar="slower:5%", help="exit with 1 if B's whole interval lies below -5 %%"),
            flag("--anyway", help="compare even if model, data, mode or protocol differ, or if not interleaved"),
            flag("-v", "--verbose", help="with --run: show what the cells' libraries print"),
            flag(
                "first",
                metavar="A",
                help="a folder of records, a suite, a record's file, or FOLDER@WORD: the records there "
                "(default: results) of this git revision, branch, CPU, GPU or TPU",
            ),
            flag("others", metavar="B", nargs="*", help="the same; not needed if A is the folder of a --run"),
        ),
        usage="[flags] A [B]\n       accelbench compare --run [flags] A B",
        description=DESCRIPTION,
    ),
    Command(
        name="regressions",
        summary="say which cells changed between two git revisions",
        run=_regressions,
        flags=(
            flag("--json", help="print each cell as JSON"),
            flag("--anyway", help="also test cells that were not interleaved"),
            flag("range", metavar="[FOLDER]@REV1..REV2", help="the records of two git revisions, in results"),
        ),
        usage="[--json] [--anyway] [FOLDER]@REV1..REV2",
    ),
)
