"""`accelbench regressions`: which cells changed between two git revisions."""

import dataclasses
import json
from argparse import Namespace
from collections import Counter
from typing import TYPE_CHECKING

from accelbench import project
from accelbench.commands.command import Command, Context, flag
from accelbench.errors import UserError

if TYPE_CHECKING:
    from accelbench.compare.comparison import CellChange


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.compare import comparison, record_sets
    from accelbench.compare.comparison import Change, changes

    folder, _, revisions = chosen.range.rpartition("@")
    first, dots, second = revisions.partition("..")
    if "@" not in chosen.range or not (first and dots and second):
        raise UserError(f"regressions: takes two revisions, such as results@1f3c9ab..77d0e2c, not {chosen.range}")
    place = project.workplace()
    sets = [record_sets.find(f"{folder}@{word}", place.root, place.records) for word in (first, second)]
    for found, word in zip(sets, (first, second), strict=True):
        if found.selection != record_sets.Selection.revision:
            raise UserError(f"regressions: {word} is no git revision or branch of these records")
    if len({machine for found in sets for machine in comparison.machines(found)}) > 1:
        raise UserError("regressions: the records come from several machines; `accelbench compare` compares machines")
    compared = comparison.compared(sets[0], sets[1], comparison.terms(None, None, anyway=chosen.anyway))
    if varied := compared.matching.varied:
        raise UserError(f"regressions: the revisions share no cell: they differ in {', '.join(varied)}")
    told = changes([pair for pair, _ in compared.pairs], anyway=chosen.anyway)
    notes = [f"{found.name}: {comparison.described(found)}" for found in sets] + compared.warnings
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
    from accelbench.compare.comparison import Change

    counts = Counter(each.change for each in found)
    lines = [", ".join(f"{counts[change]} {change}" for change in Change if counts[change]) or "nothing ran"]
    for each in found:
        if each.change in (Change.slower, Change.faster):
            percents = [f"{100 * (value - 1):+.1f} %" for value in (each.ratio, each.low, each.high) if value]
            lines.append(f"  {each.label:<42} {each.change:<8}{percents[0]} ({percents[1]} to {percents[2]})")
        elif each.change == Change.failed:
            lines.append(f"  {each.label:<42} {each.change:<8}at the second revision: {each.why}")
    unknown = [f"  {each.label:<42} {each.change}: {each.why}" for each in found if each.change == Change.cant_tell]
    return lines + unknown


COMMAND = Command(
    name="regressions",
    summary="say which cells changed between two git revisions",
    run=_run,
    flags=(
        flag("--json", help="print each cell as JSON"),
        flag("--anyway", help="also test cells that were not interleaved"),
        flag("range", metavar="[FOLDER]@REV1..REV2", help="the records of two git revisions, in results"),
    ),
    usage="[--json] [--anyway] [FOLDER]@REV1..REV2",
)
