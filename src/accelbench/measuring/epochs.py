"""Whole passes over a data set, each waited for at its end."""

import time
from collections.abc import Callable
from typing import NamedTuple

from accelbench.measuring.clock import Compiles, Now, Timing, boot_s
from accelbench.measuring.step import Step

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


class Pass(NamedTuple):
    """When a whole pass began, in seconds since the machine started, and the seconds that it took."""

    began_boot_s: float
    seconds: float


def measure_pass(timing: Timing, step: Step, wait: Callable[[], None], compiles: Callable[[], Compiles]) -> Pass:
    """Times one of several whole passes, which `timing` takes note of.

    The first compiles what there is to compile; what a later one compiles is in the steady state.

    Args:
        timing: of all passes.
        step: the workload of this one, as for `time_pass`.
        wait: returns when everything launched on the device is done.
        compiles: the engine's count of compilations so far.
    """
    began_s, (compiled, _) = boot_s(), compiles()
    seconds = time_pass(step, wait)
    if timing.steady_boot_s is None:
        timing.steady_boot_s = began_s, boot_s()
    else:
        timing.steady_boot_s = timing.steady_boot_s[0], boot_s()
        timing.compiled_in_steady_state += compiles()[0] - compiled
    return Pass(began_s, seconds)
