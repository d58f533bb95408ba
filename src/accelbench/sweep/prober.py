"""Probes the peak rates of devices (ceilings), stores them, and compares them with the speed of cells."""

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelbench.devices.proc import CpuTimes, cpu_times
from accelbench.errors import RefusedError, WriteError, writing_errors
from accelbench.grid.fingerprint import of_cell
from accelbench.isolation.hosts import Hosts
from accelbench.judging.roofline import ceilings_of_cell, flops_per_s
from accelbench.judging.verdict import MIN_OTHERS, MIN_STEAL, is_allowed, load_beside
from accelbench.presentation import significant
from accelbench.project import CEILINGS
from accelbench.schema.ceilings import Ceilings, formats_of, keep_of_machine, read_ceilings
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import Device, Engine, Precision

# Probes run in this engine, whichever engine a cell has.
PROBING_ENGINE = Engine.pytorch
SECONDS, SECONDS_EACH = 2, 3  # length of a probe on two cores: a constant part, and a part for each precision
MAX_REPROBES = 3  # for each device in one sweep
SIXTEEN_BITS = (Precision.fp16, Precision.bf16)
MAX_WAITS = 4  # for a quiet machine in one sweep
LOOK_S = 1.0  # long enough for the kernel's ticks of 10 ms
Probed = tuple[Device, str | None]  # a device, and the interpreter that drives it (`Cell.python`)
FAR_BELOW = 2.0  # If fp32's peak rate is this many times a 16-bit format's, the device has no units for the format.


class Quiet:
    """Waits for a quiet machine: at most `quiet_s` each time, and at most `MAX_WAITS` times as long in all."""

    waited_s = 0.0  # in all waits

    def __init__(
        self,
        quiet_s: float,  # 0: it never waits
        say: Callable[[str], None],
        look: Callable[[], CpuTimes] = lambda: cpu_times(os.sched_getaffinity(0)),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.quiet_s = quiet_s
        self._say, self._look, self._sleep = say, look, sleep

    def comes(self, why: str, left_s: float = math.inf) -> bool:
        """Prints `why`, and waits at most `left_s` for a quiet second. Returns whether there was one."""
        limit_s = min(self.quiet_s, left_s, MAX_WAITS * self.quiet_s - self.waited_s)
        if limit_s < LOOK_S:
            return False
        self._say(f"{why}: waits up to {limit_s:.0f} s for a quiet machine, to repeat it ...")
        end_s = self.waited_s + limit_s
        before = self._look()
        while self.waited_s + LOOK_S <= end_s:
            self._sleep(LOOK_S)
            self.waited_s += LOOK_S
            earlier = before
            before = self._look()
            used, stolen = ((after - start) / LOOK_S for after, start in zip(before, earlier, strict=True))
            if used < MIN_OTHERS and stolen < MIN_STEAL:
                return True
        return False


class Prober:
    """Probes each device before its first cell, unless ceilings.json has its ceilings.

    A probe covers the precisions of all `cells`. Each interpreter has its own ceilings, since its packages may be
    faster. `root` is the folder of ceilings.json. `environment` describes the machine and the packages of probes (see
    `grid.fingerprint`). Ceilings of a different environment are not used. If other programs disturb a probe, it is
    repeated on a quiet machine. If they disturb the repetition as well, the next sweep probes again.
    """

    def __init__(
        self,
        hosts: Hosts,
        root: Path,
        environment: Mapping[str, Any],
        say: Callable[[str], None],
        cells: Sequence[Cell] = (),
        quiet: Quiet | None = None,
    ) -> None:
        self.hosts = hosts
        self.root = root
        self.environment = environment
        self.say = say
        self.cells = cells
        self.known: dict[Probed, Ceilings | None] = {}
        self.num_reprobes = Counter[Probed]()
        self._quiet = quiet or Quiet(0.0, say)

    def ceilings(self, cell: Cell) -> Ceilings | None:
        """Returns the ceilings of the cell's device. Returns None if the device can't be probed."""
        key = _probed(cell)
        if key not in self.known:
            self.known[key] = kept = self._kept(cell)
            precisions = [cell.precision]
            precisions += [other.precision for other in self.cells if _probed(other) == key]
            settled = set(kept.probed) - kept.disturbed.keys() if kept else set()
            wanted = dict.fromkeys(word for precision in precisions for word in formats_of(precision))
            if unprobed := [word for word in wanted if word not in settled]:
                self.probe(cell, unprobed)
        return self.known[key]

    def _kept(self, cell: Cell) -> Ceilings | None:
        return read_ceilings(self.root, of_cell(cell, self.environment)).get(cell.device.value)

    def probe(self, cell: Cell, precisions: Sequence[Precision], why: str = "again only for other packages") -> None:
        """Prints `why`, probes the device, and stores its ceilings.

        If other programs disturb the probe, waits for a quiet machine, at most as long as a probe takes, and repeats
        the probe.
        """
        load = self._probe_once(cell, precisions, why)
        if load and self._quiet.comes(f"The probe of {cell.device} was disturbed ({load})", _seconds(precisions)):
            self._probe_once(cell, precisions, "again")

    def _probe_once(self, cell: Cell, precisions: Sequence[Precision], why: str) -> str | None:
        """Probes once. Returns the load that disturbed the probe, or None if no load did, or if nothing was probed."""
        device = cell.device
        cell = replace(cell, engine=PROBING_ENGINE, keras=None)
        before = self.known.setdefault(_probed(cell), self._kept(cell))
        if not self.hosts.can_probe(cell):
            return None
        about = f"{', '.join(precisions)}; about {_seconds(precisions)} s, {why}"
        self.say(f"Measuring the peak speed of {device} ({about}) ...")
        outcome = self.hosts.probe(cell, precisions)
        ceilings = outcome.ceilings
        if ceilings is None:
            self.say(f"{device} could not be probed: {outcome.reason}. Its cells get no share of the peak speed.")
            return None
        load = None if is_allowed() else load_beside(outcome.system)
        if load:
            ceilings = replace(ceilings, disturbed=dict.fromkeys(ceilings.probed, load))
        self.known[_probed(cell)] = joined = before.joined(ceilings) if before else ceilings
        try:
            with writing_errors(CEILINGS):
                keep_of_machine(self.root, of_cell(cell, self.environment), device.value, joined)
        except (WriteError, RefusedError) as error:
            self.say(f"{error}. The next sweep probes again.")
        return load

    def after(self, cell: Cell, measured: Measurement | None, label: str) -> Ceilings | None:
        """Returns the ceilings of the cell's device after the cell `label` ran. Returns None if they are unknown.

        The device is probed again if an ok and undisturbed cell was faster than its ceiling. It is also probed again
        after its first cell if its first probe was disturbed.
        """
        key = _probed(cell)
        while self.num_reprobes[key] < MAX_REPROBES and (why := self._why_too_low(cell, measured, label)):
            self.num_reprobes[key] += 1
            self.probe(cell, formats_of(cell.precision), f"again: {why}")
        return self.known.get(key)

    def _why_too_low(self, cell: Cell, measured: Measurement | None, label: str) -> str | None:
        ceilings_here = self.known.get(_probed(cell))
        if ceilings_here is None or measured is None or (rate := flops_per_s(cell, measured)) is None:
            return None
        if load := ceilings_here.disturbance(cell.precision):
            return None if self.num_reprobes[_probed(cell)] else f"it was disturbed ({load})"
        ceilings = ceilings_of_cell(ceilings_here, cell, measured.num_devices)
        ceiling = ceilings.ceiling_of(cell.precision) if ceilings else None
        return f"{label} was faster" if ceiling is not None and rate > ceiling else None


def _seconds(precisions: Sequence[Precision]) -> int:
    """Returns roughly the seconds that a probe takes."""
    return SECONDS + SECONDS_EACH * len(precisions)


def _probed(cell: Cell) -> Probed:
    return cell.device, cell.python


def slow_formats(ceilings: Ceilings | None, precisions: Iterable[Precision]) -> Iterator[str]:
    """Yields a sentence for each 16-bit format that is far slower than fp32, since the device has no units for it."""
    rates = ceilings.flops_per_s if ceilings else {}
    fp32 = rates.get(Precision.fp32)
    for word in dict.fromkeys(word for precision in precisions for word in formats_of(precision)):
        rate = rates.get(word)
        if word in SIXTEEN_BITS and fp32 and rate and fp32 >= FAR_BELOW * rate:
            rates_text = f"{significant(rate / 1e9, 2)} against {significant(fp32 / 1e9, 2)} GFLOP/s in fp32"
            slower = f"at least about {fp32 / rate:.0f} times slower than in fp32"
            yield f"{word} has no units on this device ({rates_text}): expect its cells to be {slower}"
