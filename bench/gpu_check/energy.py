"""Compares NVML's energy counter with the integral of its power samples, during steady matrix products."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.gpu_check.findings import IS_SIMULATED, figure, problem, skipped, within

WARMUP_S, MEASURE_S, PERIOD_S = 3.0, 10.0, 0.05
SIDE, NUM_PRODUCTS = 4096, 20
BOUNDS = (0.9, 1.1)


@dataclass
class Samples:
    """Readings of the power with their times, and the rise of the energy counter from the first to the last."""

    times_s: list[float] = field(default_factory=list)
    watts: list[float] = field(default_factory=list)
    counted_j: float = 0.0


def sample(
    watts: Callable[[], float], joules: Callable[[], float], goes_on: Callable[[], bool], period_s: float = PERIOD_S
) -> Samples:
    """Reads the power while `goes_on()` is true, and the energy counter before and after."""
    found = Samples()
    before = joules()
    while not found.times_s or goes_on():
        if found.times_s:
            time.sleep(period_s)
        found.watts.append(watts())
        found.times_s.append(time.monotonic())
    found.counted_j = joules() - before
    return found


def integral(times_s: Sequence[float], watts: Sequence[float]) -> float:
    """The energy of power samples in joules, by the trapezoidal rule.

    Raises ValueError: there are fewer than two samples, or the times do not rise.
    """
    spans = [after - before for before, after in zip(times_s, times_s[1:], strict=False)]
    if not spans or min(spans) <= 0:
        raise ValueError("an integral needs two samples or more, at rising times")
    means = [(before + after) / 2 for before, after in zip(watts, watts[1:], strict=False)]
    return sum(span * mean for span, mean in zip(spans, means, strict=True))


def judge(found: Samples) -> None:
    """Reports the ratio of the counter to the integral."""
    summed_j = integral(found.times_s, found.watts)
    seconds = found.times_s[-1] - found.times_s[0]
    if summed_j <= 0:
        problem(f"the power samples add up to {summed_j:g} J")
        return
    ratio = found.counted_j / summed_j
    text = f"counter {found.counted_j:,.0f} J, integral of {len(found.watts)} power samples {summed_j:,.0f} J over "
    text += f"{seconds:.1f} s ({summed_j / seconds:.0f} W): ratio {ratio:.3f}"
    if within(ratio, BOUNDS):
        figure(text)
    else:
        problem(f"{text}, outside of {BOUNDS[0]:g} to {BOUNDS[1]:g}")


def main() -> None:
    """Makes the comparison on the first visible GPU."""
    if IS_SIMULATED:
        skipped("not run: a simulated GPU takes no power")
        return
    import pynvml
    import torch

    from accelbench.devices.gpu import visible_handles

    handle = visible_handles()[0]
    for query in (pynvml.nvmlDeviceGetTotalEnergyConsumption, pynvml.nvmlDeviceGetPowerUsage):
        try:
            query(handle)
        except pynvml.NVMLError as error:
            skipped(f"{query.__name__}: {error}")
            return
    factor = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.float16)
    product = torch.empty_like(factor)
    ended = threading.Event()

    def load() -> None:
        while not ended.is_set():
            for _ in range(NUM_PRODUCTS):
                torch.mm(factor, factor, out=product)
            torch.cuda.synchronize()

    worker = threading.Thread(target=load)
    worker.start()
    try:
        time.sleep(WARMUP_S)
        end = time.monotonic() + MEASURE_S
        found = sample(
            lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000,
            lambda: time.monotonic() < end,
        )
    finally:
        ended.set()
        worker.join()
    judge(found)


if __name__ == "__main__":
    main()
