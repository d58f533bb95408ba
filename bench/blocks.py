"""How a hand-written loop is timed: blocks of steps after a warm-up. It imports nothing that takes time."""

import time
from collections.abc import Callable
from statistics import median


def steps_per_s(step: Callable[[], object], warmup_s: float, block_s: float, measure_s: float) -> float:
    """The median of blocks, after a warm-up."""
    timed(step, warmup_s)
    rates, spent = [], 0.0
    while spent < measure_s:
        num, seconds = timed(step, block_s)
        rates.append(num / seconds)
        spent += seconds
    return median(rates)


def timed(step: Callable[[], object], seconds: float) -> tuple[int, float]:
    """The number of steps in at least `seconds`, and how long they took."""
    start, num = time.perf_counter(), 0
    while (took := time.perf_counter() - start) < seconds:
        step()
        num += 1
    return num, took


def seconds_per_step(step: Callable[[], object], num_steps: int) -> float:
    """Over a number of steps."""
    start = time.perf_counter()
    for _ in range(num_steps):
        step()
    return (time.perf_counter() - start) / num_steps
