"""How near a cell comes to the ceiling of its device, and which resource bounds it."""

from accelbench.schema.ceilings import Ceilings
from accelbench.schema.measurement import Work
from accelbench.schema.vocab import Bound

# Winograd's F(2x2, 3x3) takes 16 multiplications where a direct convolution takes 36 (Lavin and Gray, "Fast Algorithms
# for Convolutional Neural Networks", CVPR 2016). Operations are counted as of the direct convolution, so a true rate
# may exceed the measured ceiling by this factor, but not by more.
WINOGRAD = 2.25


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
    """The resource that a step of so many seconds waits for longest.

    Data or copying if a step waits for them for more than half of its seconds (`data_s`, `copy_s`). Else the resource
    with the longest least time; an estimate above the step's time is wrong. None if work or ceilings are unknown, or if
    operators are `fused`, compiled or launched together, which makes their bytes and launches unknown.
    """
    for word, waited in ((Bound.data, data_s), (Bound.copy, copy_s)):
        if waited is not None and waited > seconds / 2:
            return word
    if work is None or work.flops is None or ceilings is None or fused:
        return None
    if (ceiling := ceilings.ceiling_of(precision)) is None:
        return None
    least = {Bound.compute: work.flops / ceiling}
    if work.bytes is not None:
        least[Bound.memory] = work.bytes / ceilings.memory_bytes_per_s
    if work.num_operators is not None:
        least[Bound.launch] = work.num_operators * ceilings.launch_s
    possible = {word: time_s for word, time_s in least.items() if word == Bound.compute or time_s <= seconds}
    return max(possible, key=lambda word: possible[word])
