"""Probes the peak rates of devices (ceilings), stores them, and compares them with the speed of cells."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelbench.devices.proc import CpuTimes, cpu_times
from accelbench.errors import RefusedError, WriteError, writing_errors
from accelbench.grid.fingerprint import of_cell
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import MIN_OTHERS, MIN_STEAL, load_beside, share_of_ceiling
from accelbench.project import CEILINGS
from accelbench.schema.ceilings import Ceilings, formats_of, keep_ceilings, read_ceilings
from accelbench.schema.cell import Cell, Device, Engine, Precision
from accelbench.schema.measurement import Measurement

# Probes run in this engine, whichever engine a cell has.
PROBING_ENGINE = Engine.pytorch
AGAIN = "again"  # why a disturbed probe is repeated
SECONDS, SECONDS_EACH = 2, 3  # length of a probe on two cores: a constant part, and a part for each precision
MAX_WAITS = 4  # for a quiet machine in one sweep
LOOK_S = 1.0  # long enough for the kernel's ticks of 10 ms
Probed = tuple[Device, str | None]  # a device, and the interpreter that drives it (`Cell.python`)


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
    repeated on a quiet machine. If they disturb the repetition as well, the ceilings stay unknown in this sweep.
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
        self._reprobed: set[Probed] = set()
        self._quiet = quiet or Quiet(0.0, say)

    def ceilings(self, cell: Cell) -> Ceilings | None:
        """Returns the ceilings of the cell's device. Returns None if the device can't be probed."""
        key = _probed(cell)
        if key not in self.known:
            self.known[key] = kept = read_ceilings(self.root, of_cell(cell, self.environment)).get(
                cell.device.value
            )
            precisions = [cell.precision]
            precisions += [other.precision for other in self.cells if _probed(other) == key]
            wanted = dict.fromkeys(word for precision in precisions for word in formats_of(precision))
            if unprobed := [word for word in wanted if kept is None or word not in kept.probed]:
                self.probe(cell, unprobed)
        return self.known[key]

    def probe(
        self, cell: Cell, precisions: Sequence[Precision], why: str = "again only for other packages"
    ) -> None:
        """Prints `why`, probes the device, and stores its ceilings.

        If other programs disturb the probe, waits for a quiet machine, at most as long as a probe takes, and repeats
        the probe.
        """
        device = cell.device
        cell = replace(cell, engine=PROBING_ENGINE, keras=None)
        seconds = SECONDS + SECONDS_EACH * len(precisions)
        while True:
            about = f"{', '.join(precisions)}; about {seconds} s, {why}"
            self.say(f"Measuring the peak speed of {device} ({about}) ...")
            outcome = self.hosts.probe(cell, precisions)
            if outcome.ceilings is None:
                self.say(
                    f"{device} could not be probed: {outcome.reason}. Its cells get no share of the peak speed."
                )
                return
            load = load_beside(outcome.system)
            if load is None:
                self._keep(cell, outcome.ceilings)
                return
            if why == AGAIN or not self._quiet.comes(
                f"The probe of {device} was disturbed ({load})", seconds
            ):
                self.say(
                    f"The peak speed of {device} is unknown in this sweep: other programs disturbed the probe ({load})"
                )
                return
            why = AGAIN

    def _keep(self, cell: Cell, probed: Ceilings) -> None:
        key = _probed(cell)
        environment = of_cell(cell, self.environment)
        known = self.known.get(key) or read_ceilings(self.root, environment).get(cell.device.value)
        self.known[key] = ceilings = known.joined(probed) if known else probed
        try:
            with writing_errors(CEILINGS):
                keep_ceilings(self.root, environment, cell.device.value, ceilings)
        except (WriteError, RefusedError) as error:
            self.say(f"{error}. The next sweep probes again.")

    def after(self, cell: Cell, measured: Measurement | None, label: str) -> Ceilings | None:
        """Returns the ceilings of the cell's device after the cell `label` ran. Returns None if they are unknown.

        The device is probed again, once in a sweep, if a cell was faster than its ceiling.
        """
        key = _probed(cell)
        share = None if measured is None else share_of_ceiling(cell, measured, self.known.get(key))
        if share is not None and share > 1 and key not in self._reprobed:
            self._reprobed.add(key)
            self.probe(cell, formats_of(cell.precision), f"again: {label} was faster")
        return self.known.get(key)


def _probed(cell: Cell) -> Probed:
    return cell.device, cell.python
