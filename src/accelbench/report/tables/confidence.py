"""How sure it is that one cell is faster than another."""

from collections.abc import Sequence

from accelbench.compare.pairs import Pair
from accelbench.compare.record_sets import Process
from accelbench.compare.verdict import Verdict
from accelbench.report.read import ReportedCell

NOTE = (
    'How sure: "sure" takes five fresh processes a side or more, measured in turns, and tells by the 95 % interval of '
    'their difference. "Likely, not proven": the two intervals are apart, but each is of one process, and another may '
    'differ by more. "Can\'t tell": the intervals overlap, or one has too few blocks for an interval. '
    "accelbench compare --run decides."
)


def how_sure(first: Sequence[ReportedCell], second: Sequence[ReportedCell]) -> str:
    """What can be said of the difference between two cells' speeds, in words.

    Args:
        first: the ok processes of one cell: its repeats.
        second: those of the other.
    """
    sides = [[Process.of(planned.record) for planned in side if planned.record] for side in (first, second)]
    found = Pair(first=sides[0], second=sides[1]).compare(anyway=False)
    if found.low is not None and found.high is not None and found.interleaved:
        low, high = (f"{100 * (ratio - 1):+.3g} %" for ratio in (found.low, found.high))
        verdict = found.verdict()
        what = "can't tell" if verdict == Verdict.cant_tell else f"sure: {verdict}"
        return f"{what} ({low} to {high})"
    return _of_intervals(first[0], second[0])


def _of_intervals(one: ReportedCell, other: ReportedCell) -> str:
    bounds = [(planned.number("samples_per_s_low"), planned.number("samples_per_s_high")) for planned in (one, other)]
    (low, high), (other_low, other_high) = bounds
    if low is None or high is None or other_low is None or other_high is None:
        return "can't tell: too few blocks"
    if low <= other_high and other_low <= high:
        return "can't tell: they overlap"
    return "likely, not proven"
