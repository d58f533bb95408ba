"""Whole passes over a data set, each waited for at its end."""

import time
from collections.abc import Callable

from accelbench.clock import Compiles, Now, Step, Timing, boot_s

# Passes over the test set in `fit` inference: the first one warms up.
NUM_INFER_PASSES = 3


def time_pass(step: Step, wait: Callable[[], None], now: Now = time.perf_counter) -> float:
    """Seconds of one whole pass: steps until `step.fetch` raises StopIteration, waited for at the end."""
    start = now()
    while True:
        try:
            batch = step.fetch()
        except StopIteration:
            break
        step.compute(step.copy_in(batch))
    wait()
    return now() - start


def measure_pass(timing: Timing, step: Step, wait: Callable[[], None], compiles: Callable[[], Compiles]) -> float:
    """Seconds of one of several whole passes, which `timing` takes note of.

    The first compiles what there is to compile; what a later one compiles is in the steady state.

    Args:
        timing: of all passes.
        step: the workload of this one, as for `time_pass`.
        wait: returns when everything launched on the device is done.
        compiles: the engine's count of compilations so far.
    """
    began_s, (compiled, _) = boot_s(), compiles()
    seconds = time_pass(step, wait)
    if timing.steady_boot_s is not None:
        began_s = timing.steady_boot_s[0]
        timing.compiled_in_steady_state += compiles()[0] - compiled
    timing.steady_boot_s = began_s, boot_s()
    return seconds
