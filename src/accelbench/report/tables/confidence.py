"""How sure it is that one cell is faster than another."""

from collections.abc import Sequence

from accelbench.compare.pairs import Pair
from accelbench.compare.record_sets import Process
from accelbench.compare.verdict import Comparison, Verdict
from accelbench.judging.row import is_disturbed
from accelbench.report.read import ReportedCell

DISTURBED = "not proven: other processes disturbed them"
NOTE = (
    'How sure: "sure" needs at least five fresh processes of each cell, interleaved; the 95 % interval of their '
    'difference decides. "Likely, not proven": the two intervals do not overlap, but each is of one process, and '
    'processes may differ by more. "Not proven": other processes used the CPU meanwhile. "Can\'t tell": the '
    "intervals overlap, or a cell has too few blocks for an interval. Run accelbench compare --run to decide."
)


def confidence_in_words(first: Sequence[ReportedCell], second: Sequence[ReportedCell]) -> str:
    """What can be said of the difference between two cells' speeds, in words.

    Args:
        first: the ok repeats of one cell.
        second: the ok repeats of the cell that it is compared with.
    """
    found = compared(first, second)
    if found is None:
        return _by_intervals(first[0], second[0])
    assert found.low is not None
    assert found.high is not None
    low, high = (f"{100 * (ratio - 1):+.3g} %" for ratio in (found.low, found.high))
    verdict = found.verdict()
    if verdict == Verdict.cant_tell:
        what = "can't tell"
    else:
        what = DISTURBED if _are_disturbed(first) or _are_disturbed(second) else f"sure: {verdict}"
    return f"{what} ({low} to {high})"


def compared(first: Sequence[ReportedCell], second: Sequence[ReportedCell]) -> Comparison | None:
    """The comparison of two cells' processes, with an interval; None if they are too few, or did not run in turns.

    Args:
        first: the ok repeats of one cell.
        second: the ok repeats of the cell that it is compared with.
    """
    repeats = [[Process.of(reported.record) for reported in cell if reported.record] for cell in (first, second)]
    found = Pair(first=repeats[0], second=repeats[1]).compare(anyway=False)
    return found if found.low is not None and found.interleaved else None


def _by_intervals(first: ReportedCell, second: ReportedCell) -> str:
    """What the intervals within one process each say."""
    low, high = first.number("samples_per_s_low"), first.number("samples_per_s_high")
    second_low, second_high = second.number("samples_per_s_low"), second.number("samples_per_s_high")
    if low is None or high is None or second_low is None or second_high is None:
        return "can't tell: too few blocks"
    if low <= second_high and second_low <= high:
        return "can't tell: they overlap"
    return DISTURBED if _are_disturbed([first]) or _are_disturbed([second]) else "likely, not proven"


def _are_disturbed(repeats: Sequence[ReportedCell]) -> bool:
    """Whether other processes used the CPU during at least half of a cell's repeats."""
    found = [is_disturbed(reported.record) for reported in repeats if reported.record]
    return 2 * sum(found) >= max(1, len(found))
