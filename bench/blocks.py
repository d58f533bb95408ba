"""Times a hand-written loop: blocks of steps after a warm-up. This module imports no slow package."""

import time
from collections.abc import Callable, Iterator
from itertools import cycle
from statistics import median
from typing import Any


def steps_per_s(step: Callable[[], object], warmup_s: float, block_s: float, measure_s: float) -> float:
    """Steps per second: the median of blocks, after a warm-up."""

    def block(least_s: float) -> tuple[int, float]:
        start = time.perf_counter()
        num = 0
        while (took := time.perf_counter() - start) < least_s:
            step()
            num += 1
        return num, took

    block(warmup_s)
    blocks: list[tuple[int, float]] = []
    while sum(took for _, took in blocks) < measure_s:
        blocks.append(block(block_s))
    return median(num / took for num, took in blocks)


def in_order(values: Any, size: int) -> Iterator[Any]:
    """Whole batches of an array or a tensor, from the first to the last, again and again."""
    for start in cycle(range(0, len(values) - size + 1, size)):
        yield values[start : start + size]


def seconds_per_step(step: Callable[[], object], num_steps: int) -> float:
    """The mean seconds of a step over `num_steps` steps."""
    start = time.perf_counter()
    for _ in range(num_steps):
        step()
    return (time.perf_counter() - start) / num_steps
