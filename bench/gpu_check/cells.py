"""Cells through accelbench's engine, each in a fresh process, compared with a plain loop before and after it."""

import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from accelbench.devices.registry import look
from accelbench.grid.support import why_not
from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import Device, Status
from accelbench.stats.order_statistics import median
from bench.gpu_check import cases
from bench.gpu_check.findings import figure, problem, skipped
from bench.gpu_check.plain import Loops, PlainFailedError
from bench.gpu_check.verdicts import bounds_of, within

LONGEST_CASE_S = 15.0  # no case begins when less time is left


@dataclass(frozen=True)
class Pair:
    """What was measured of one cell: seconds per step of accelbench, and of the plain loop before and after it."""

    ours_s: float
    plain_s: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Accelbench's samples/s over the plain loop's."""
        return sum(self.plain_s) / 2 / self.ours_s

    @property
    def is_good(self) -> bool:
        """Whether the ratio is within its bounds."""
        return within(self.ratio, bounds_of(sum(self.plain_s) / 2))

    @property
    def spread(self) -> float:
        """By what share of their mean the two plain loops differ."""
        return abs(self.plain_s[0] - self.plain_s[1]) / (sum(self.plain_s) / 2)


class CellFailedError(Exception):
    """The cell has no measurement; the message says why."""


def main(part: str, device: Device, seconds: float) -> None:
    """Runs the part `cells` or `options` for at most about `seconds`."""
    end = time.monotonic() + seconds
    tried = list(_possible(cases.compared(device) if part == "cells" else cases.with_options(device)))
    if not tried:
        problem("no cell can run here")
        return
    with Hosts() as hosts, Loops() as loops:
        for cell in tried:
            hosts.start(cell)
        again: list[Cell] = []
        for index, cell in enumerate(tried):
            if time.monotonic() > end - LONGEST_CASE_S:
                problem(f"no time was left for {len(tried) - index} of {len(tried)} cells, the first {cell.label}")
                return
            if part == "options":
                _try(hosts, cell)
            elif not _compare(hosts, loops, cell, may_repeat=True):
                again.append(cell)
        for cell in again:
            if time.monotonic() > end - LONGEST_CASE_S:
                problem(f"{cell.label}: outside of the bounds, and no time was left to repeat it")
            else:
                _compare(hosts, loops, cell, may_repeat=False)


def _possible(cells: Iterable[Cell]) -> Iterable[Cell]:
    """The cells that this machine supports; the others are reported."""
    for cell in cells:
        library = cases.missing_library(cell)
        reason = f"{library} is not installed" if library else why_not(cell, look(cell.device))
        if reason is None:
            yield cell
        else:
            skipped(f"{cell.label}: {reason}")


def _compare(hosts: Hosts, loops: Loops, cell: Cell, *, may_repeat: bool) -> bool:
    """Reports one comparison; returns whether it is final: its ratio may be outside of the bounds once."""
    try:
        before = loops.step_s(cell)
        measured = _measured(hosts, cell)
        found = Pair(_step_s(measured), (before, loops.step_s(cell)))
    except CellFailedError as error:
        problem(f"{cell.label}: {error}")
        return True
    except PlainFailedError as error:
        problem(f"{cell.label}: the plain loop failed: {error}")
        return True
    text = f"{cell.label:<34} {_described(measured, cell)}  ratio {found.ratio:.3f}  (loops differ {found.spread:.1%})"
    if found.is_good or may_repeat:
        figure(text + ("" if found.is_good else "  outside: to be repeated"))
        return found.is_good
    low, high = bounds_of(sum(found.plain_s) / 2)
    problem(f"{text}  twice outside of {low:g} to {high:g}")
    return True


def _try(hosts: Hosts, cell: Cell) -> None:
    """Reports whether a cell with options runs, and its speed."""
    try:
        figure(f"{cell.label:<34} {_described(_measured(hosts, cell), cell)}")
    except CellFailedError as error:
        problem(f"{cell.label}: {error}")


def _measured(hosts: Hosts, cell: Cell) -> Measurement:
    with tempfile.TemporaryDirectory() as folder:  # random images need no files
        outcome = hosts.run(cell, Path(folder))
    if outcome.status != Status.ok or outcome.measurement is None:
        raise CellFailedError(f"{outcome.status}: {outcome.reason}")
    return outcome.measurement


def _step_s(measured: Measurement) -> float:
    return median([block.seconds / block.num_steps for block in measured.blocks])


def _described(measured: Measurement, cell: Cell) -> str:
    step_s = _step_s(measured)
    flops = measured.work.flops if measured.work is not None else None
    texts = [f"{cell.batch_size / step_s:>11,.0f}/s {step_s * 1e3:>9.3f} ms"]
    texts.append(" " * 14 if flops is None else f"{flops / step_s / 1e12:>7.3g} TFLOP/s")
    if measured.peak_device_bytes is not None:
        texts.append(f"{measured.peak_device_bytes / 1e6:>7,.0f} MB")
    if measured.output_error is not None:
        texts.append(f"error {measured.output_error:.1g}")
    if measured.compile_s:
        texts.append(f"compiled in {measured.compile_s:.0f} s")
    return " ".join(texts)


if __name__ == "__main__":
    main(sys.argv[1], Device(sys.argv[2]), float(sys.argv[3]))
