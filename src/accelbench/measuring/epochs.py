"""Times whole epochs: every sample of a data set once, waited for at the end."""

import time
from collections.abc import Callable
from typing import NamedTuple

from accelbench.measuring.clock import boot_s
from accelbench.measuring.runner import Compiles, Now, Timing
from accelbench.measuring.step import Step

# Epochs over the test set when `protocol=fit` infers; the first one is the warm-up.
NUM_INFER_EPOCHS = 3


class EpochTime(NamedTuple):
    """How long an epoch took, in seconds."""

    seconds: float  # the whole epoch
    data_s: float  # of it, the time in `step.fetch`; the device may compute meanwhile
    first_step_s: float | None  # the first step, waited for; None if that was not asked for, or there was no step


def time_epoch(
    step: Step, wait: Callable[[], None], now: Now = time.perf_counter, *, waits_for_first: bool = False
) -> EpochTime:
    """Runs steps until `step.fetch` raises StopIteration, then waits for the device."""
    data_s, first_step_s = 0.0, None
    start = now()
    while True:
        asked = now()
        try:
            batch = step.fetch()
        except StopIteration:
            break
        data_s += now() - asked
        step.compute(step.copy_in(batch))
        if waits_for_first:
            wait()
            first_step_s = now() - start
            waits_for_first = False
    wait()
    return EpochTime(now() - start, data_s, first_step_s)


def measure_epoch(
    timing: Timing, step: Step, wait: Callable[[], None], compiles: Callable[[], Compiles], now: Now = time.perf_counter
) -> tuple[float, EpochTime]:
    """Times one of several epochs, and updates the first step and the steady state in `timing`.

    The first epoch is expected to compile; a compilation in a later epoch counts as one in the steady state.
    `timing` is shared by all epochs of the cell.

    Returns:
        When the epoch began, in seconds since the machine started, and how long it took.
    """
    is_first = timing.steady_boot_s is None
    began_s, (compiled, _) = boot_s(), compiles()
    took = time_epoch(step, wait, now, waits_for_first=is_first)
    if timing.steady_boot_s is None:
        timing.steady_boot_s = began_s, boot_s()
        timing.first_step_s = took.first_step_s
    else:
        timing.steady_boot_s = timing.steady_boot_s[0], boot_s()
        timing.compiled_in_steady_state += compiles()[0] - compiled
    return began_s, took
