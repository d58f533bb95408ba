"""How near a cell came to what its device can do at most, and what bounds it."""

from accelbench.schema.ceilings import Ceilings
from accelbench.schema.vocab import Bound, CeilingVerdict
from accelbench.schema.work import Work

# Winograd's F(2x2, 3x3) takes 16 multiplications where a direct convolution takes 36 (Lavin and Gray, "Fast Algorithms
# for Convolutional Neural Networks", CVPR 2016): operations are counted by definition, so that a true rate may exceed
# the arithmetic's peak by so much, and by no more.
WINOGRAD = 2.25


def share(flops: int | None, seconds: float, ceiling: float | None) -> float | None:
    """How near a step came to the ceiling: its operations per second over the ceiling's.

    Args:
        flops: of the step; None where they are unknown.
        seconds: that it took; above 0.
        ceiling: operations per second; None where it is unknown.

    Returns:
        1 at the ceiling; None where it can't be told.
    """
    return None if flops is None or ceiling is None else flops / seconds / ceiling


def least_times(work: Work, ceilings: Ceilings, precision: str) -> dict[Bound, float]:
    """The seconds that each resource needs for a step, were there nothing else to wait for.

    Args:
        work: of the step.
        ceilings: of the device.
        precision: what the step computes in.

    Returns:
        An entry for each resource whose need is known. That of the memory is an estimate that knows no caches.
    """
    ceiling = ceilings.ceiling_of(precision)
    least: dict[Bound, float] = {}
    if work.flops is not None and ceiling is not None:
        least[Bound.compute] = work.flops / ceiling
    if work.bytes is not None:
        least[Bound.memory] = work.bytes / ceilings.memory_bytes_per_s
    if work.num_operators is not None:
        least[Bound.launch] = work.num_operators * ceilings.launch_s
    return least


def bound(
    work: Work | None,
    seconds: float,
    ceilings: Ceilings | None,
    precision: str,
    *,
    fused: bool = False,
    data_s: float | None = None,
    copy_s: float | None = None,
) -> Bound | None:
    """The resource that a step waits for longest.

    Data and copies are what was measured of the step: more than half of it. Else it is the resource whose least time
    is longest; an estimate longer than the whole step is wrong, and none.

    Args:
        work: of the step; None where it was not counted.
        seconds: of the step.
        ceilings: of the device; None where it was not probed.
        precision: what the step computes in.
        fused: whether operators are compiled or launched together: their bytes and launches are then not known.
        data_s: seconds that a step waits for its batch; None where it is unknown.
        copy_s: seconds that it takes to copy the batch in and the result out; None where nothing is copied.

    Returns:
        None where operations, ceilings, bytes or launches are unknown: the largest of some would be a guess.
    """
    for word, waited in ((Bound.data, data_s), (Bound.copy, copy_s)):
        if waited is not None and waited > seconds / 2:
            return word
    if work is None or ceilings is None or fused:
        return None
    least = least_times(work, ceilings, precision)
    if Bound.compute not in least:
        return None
    possible = {word: time_s for word, time_s in least.items() if word == Bound.compute or time_s <= seconds}
    return max(possible, key=lambda word: possible[word])


def verdict(rate: float, ceiling: float) -> CeilingVerdict:
    """Whether a rate can be true.

    Args:
        rate: operations per second, counted by definition.
        ceiling: the best that was measured.

    Returns:
        `below`; `above`: the ceiling or the rate is in doubt, probe again; `beyond`: more than Winograd's gain above
        it, which nothing explains.
    """
    if rate <= ceiling:
        return CeilingVerdict.below
    return CeilingVerdict.above if rate <= WINOGRAD * ceiling else CeilingVerdict.beyond
