"""Times whole epochs: every sample of a data set once, waited for at the end."""

import time
from collections.abc import Callable
from typing import NamedTuple

from accelbench.measuring.clock import Compiles, Now, Timing, boot_s
from accelbench.measuring.step import Step

# Epochs over the test set when `protocol=fit` infers; the first one is the warm-up.
NUM_INFER_EPOCHS = 3


def time_epoch(step: Step, wait: Callable[[], None], now: Now = time.perf_counter) -> float:
    """Seconds of one epoch: runs steps until `step.fetch` raises StopIteration, then waits for the device."""
    start = now()
    while True:
        try:
            batch = step.fetch()
        except StopIteration:
            break
        step.compute(step.copy_in(batch))
    wait()
    return now() - start


class EpochTime(NamedTuple):
    """When an epoch began, in seconds since the machine started, and how many seconds it took."""

    began_boot_s: float
    seconds: float


def measure_epoch(timing: Timing, step: Step, wait: Callable[[], None], compiles: Callable[[], Compiles]) -> EpochTime:
    """Times one of several epochs, and updates the steady state in `timing`.

    The first epoch is expected to compile; a compilation in a later epoch counts as one in the steady state.

    Args:
        timing: shared by all epochs of the cell.
        step: the workload of this epoch, as for `time_epoch`.
        wait: returns when everything launched on the device is done.
        compiles: returns the engine's number of compilations so far, and their seconds.
    """
    began_s, (compiled, _) = boot_s(), compiles()
    seconds = time_epoch(step, wait)
    if timing.steady_boot_s is None:
        timing.steady_boot_s = began_s, boot_s()
    else:
        timing.steady_boot_s = timing.steady_boot_s[0], boot_s()
        timing.compiled_in_steady_state += compiles()[0] - compiled
    return EpochTime(began_s, seconds)
