"""Which of many cells changed between two revisions, so that hardly any list names one by chance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from accelbench.compare.matching import Match
from accelbench.compare.sureness import MIN_PROCESSES, SpeedRatio, Verdict, compare_processes

ALPHA = 0.05  # the share of lists of equal cells that name any of them


class Change(StrEnum):
    """What became of a cell: failed, if it ran at the first revision and no process ended ok at the second."""

    failed = "failed"
    slower = "slower"
    faster = "faster"
    none_found = "no change found"
    cant_tell = "can't tell"


@dataclass(frozen=True, kw_only=True)
class CellChange(SpeedRatio):
    """A cell at two revisions, and how its speed at the second compares with that at the first."""

    label: str
    change: Change
    why: str  # nothing can be told, or what it ended as; else empty


def changes(pairs: Sequence[Match], *, anyway: bool = False) -> list[CellChange]:
    """What became of each cell, those that changed most first; `anyway` tests cells that were not interleaved, too.

    The more cells there are, the wider is the interval of each (Bonferroni): of lists in which nothing changed, at most
    the share `ALPHA` names any.
    """
    confidence = 1 - ALPHA / max(1, len(pairs))
    found = [_change(each, compare_processes(each.first, each.second, confidence, anyway=anyway)) for each in pairs]
    order = list(Change)
    return sorted(found, key=lambda each: (order.index(each.change), -abs(math.log(each.ratio or 1.0))))


def _change(pair: Match, found: SpeedRatio) -> CellChange:
    change, why = Change.cant_tell, ""
    if found.num_first and pair.second and not found.num_second:
        change, why = Change.failed, ", ".join(dict.fromkeys(each.outcome for each in pair.second))
    elif found.ratio is None:
        why = f"it takes {MIN_PROCESSES} processes a side"
    elif not found.interleaved:
        why = "not interleaved"
    else:
        verdict = found.verdict(margin=0.0)
        change = {Verdict.faster: Change.faster, Verdict.slower: Change.slower}.get(verdict, Change.none_found)
    return CellChange(label=pair.label, change=change, why=why, **vars(found))
