"""Reads the energy counters of the hardware, and measures idle power with them."""

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pynvml

from accelbench.devices import gpu, proc

IDLE_S = 1.0  # seconds for which idle power is measured

# Name of a series -> a function that returns the joules so far, or None if the counter can't be read.
Counters = dict[str, Callable[[], float | None]]


def _joules_of(packages: Sequence[Path]) -> Callable[[], float | None]:
    """Returns a function that returns the joules that all processor packages used since this call.

    It returns None if a counter can't be read now. It corrects the sum if a counter wraps around. Linux documents the
    counters in Documentation/power/powercap.
    """

    def read(file: str) -> list[int]:
        return [int((folder / file).read_text()) for folder in packages]

    ranges = read("max_energy_range_uj")
    last = read("energy_uj")
    total = 0

    def joules() -> float | None:
        nonlocal last, total
        try:
            now = read("energy_uj")
        except (OSError, ValueError):
            return None
        for before, after, most in zip(last, now, ranges, strict=True):
            total += (after - before) % most
        last = now
        return total / 1e6

    return joules


def find_rapl() -> Callable[[], float | None] | None:
    """Returns the processor's energy counter, or None if this user can't read one. Often only root may read it."""
    # `intel-rapl:0` is a package, `intel-rapl:0:0` a part of a package. AMD's counters have the same names.
    folders = sorted((proc.ROOT / "sys/class/powercap").glob("intel-rapl:*"))
    packages = [folder for folder in folders if folder.name.count(":") == 1]
    try:
        chosen = [path for path in packages if (path / "name").read_text().startswith("package")]
        return _joules_of(chosen) if chosen else None
    except (OSError, ValueError):
        return None


def counters(num_gpus: int) -> Counters:
    """Returns the available counters of the processor and of the first `num_gpus` visible GPUs."""
    rapl = find_rapl()
    readers: Counters = {} if rapl is None else {"cpu_energy_j": rapl}
    for index, handle in enumerate(gpu.first_handles(num_gpus)):
        query = functools.partial(
            gpu.ask, lambda one: pynvml.nvmlDeviceGetTotalEnergyConsumption(one) / 1000, handle
        )
        if query() is not None:  # GPUs before Volta have no counter
            readers[f"gpu_{index}_energy_j"] = query
    return readers


def idle_w(readers: Counters) -> dict[str, float]:
    """Sleeps for `IDLE_S`. Returns the mean power in watts that each counter's device used during this time."""
    if not readers:
        return {}
    start = time.monotonic()
    before = [read() for read in readers.values()]
    time.sleep(IDLE_S)
    after = [read() for read in readers.values()]
    took = time.monotonic() - start
    pairs = zip(readers, before, after, strict=True)
    return {name: (end - begin) / took for name, begin, end in pairs if begin is not None and end is not None}
