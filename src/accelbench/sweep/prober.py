"""The ceilings of the machine's devices: probed once while it is quiet, kept, compared with the speed of each cell."""

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
from accelbench.grid.estimate import Length
from accelbench.grid.fingerprint import of_cell
from accelbench.isolation.hosts import Hosts, ProbeFailedError
from accelbench.judging.roofline import ceilings_of, flops_per_s
from accelbench.judging.verdict import MIN_OTHERS, MIN_STEAL, is_allowed, judge, verdict_on
from accelbench.presentation import significant
from accelbench.project import CEILINGS
from accelbench.schema.ceilings import Ceilings, formats_of, keep_of_machine, read_ceilings
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record
from accelbench.schema.serialize import plain
from accelbench.schema.vocab import Device, Engine, Precision, Status

# The engine that probes, whichever engine a cell has: it is the device that is probed.
PROBING_ENGINE = Engine.pytorch
SECONDS, SECONDS_EACH = 2, 3  # of a probe on two cores: in all, and more for each precision
MAX_REPROBES = 3  # for each device in one sweep
NEAR = 0.85  # a share of a ceiling that was probed beside other load
SIXTEEN_BITS = (Precision.fp16, Precision.bf16)
LOOK_S = 1.0  # long enough for the kernel's ticks of 10 ms
Probed = tuple[Device, str | None]  # a device, and the other interpreter whose packages drive it (`Cell.python`)
FAR_BELOW = 2.0  # times: the peak rate of fp32 over that of a format without units; with units, a format is the faster


class Quiet:
    """Waits for a quiet machine: after a wait in vain half as long the next time, and never longer than `most_s`."""

    most_s = math.inf  # of all waits together
    waited_s = 0.0  # in all waits

    def __init__(
        self,
        quiet_s: float,  # the longest first wait; with 0 nothing waits
        say: Callable[[str], None],
        look: Callable[[], CpuTimes] = lambda: cpu_times(os.sched_getaffinity(0)),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.quiet_s = self.patience_s = quiet_s
        self._say, self._look, self._sleep = say, look, sleep

    def limit(self, expected: Length) -> None:
        """Has all waits together take no longer than the cells, or than `quiet_s` if cells are of unknown length."""
        self.most_s = max(expected.seconds, self.quiet_s if expected.num_unknown else 0.0)

    def comes(self, why: str, left_s: float = math.inf) -> bool:
        """Waits for a quiet second, at most `left_s`; whether it came. Prints `why`."""
        limit_s = min(self.patience_s, left_s, self.most_s - self.waited_s)
        if limit_s < LOOK_S:
            return False
        self._say(f"{why}: waits up to {limit_s:.0f} s for a quiet machine, to repeat it ...")
        end_s, before = self.waited_s + limit_s, self._look()
        while self.waited_s + LOOK_S <= end_s:
            self._sleep(LOOK_S)
            self.waited_s += LOOK_S
            before, earlier = self._look(), before
            used, stolen = ((after - start) / LOOK_S for after, start in zip(before, earlier, strict=True))
            if used < MIN_OTHERS and stolen < MIN_STEAL:
                return True
        self.patience_s /= 2
        return False


class Prober:
    """Probes each device before its first cell, in the cells' precisions, unless ceilings.json has its ceilings.

    Cells in another interpreter are compared with what the device did there: other packages may make more of it.
    `root` is the folder of ceilings.json, `environment` the fingerprint for `PROBING_ENGINE`: ceilings of another one
    do not count. The precisions of all `cells` are probed at once. If other load disturbed a probe, and `quiet` waits
    for its end, it is repeated.
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
        self.hosts, self.root, self.environment, self.say, self.cells = hosts, root, environment, say, cells
        self.known: dict[Probed, Ceilings | None] = {}
        self.num_reprobes = Counter[Probed]()
        self._quiet = quiet or Quiet(0.0, say)

    def ceilings(self, cell: Cell) -> Ceilings | None:
        """The ceilings of the cell's device; None if it can't be probed."""
        if _probed(cell) not in self.known:
            self.known[_probed(cell)] = known = self._read(cell)
            of_cells = [cell.precision, *(other.precision for other in self.cells if _probed(other) == _probed(cell))]
            wanted = list(dict.fromkeys(word for precision in of_cells for word in formats_of(precision)))
            if unprobed := [word for word in wanted if known is None or word not in known.probed]:
                self.probe(cell, unprobed)
            else:
                self._repeat(cell, wanted)
        return self.known[_probed(cell)]

    def _read(self, cell: Cell) -> Ceilings | None:
        return read_ceilings(self.root, of_cell(cell, self.environment)).get(cell.device.value)

    def probe(self, cell: Cell, precisions: Sequence[Precision], why: str = "once for these packages") -> None:
        """Measures the device's ceilings, joins them with the known ones, keeps them; once more if disturbed.

        Prints `why`.
        """
        if self._probe_once(cell, precisions, why):
            self._repeat(cell, precisions)

    def _repeat(self, cell: Cell, precisions: Sequence[Precision]) -> None:
        known = self.known[_probed(cell)]
        if again := [word for word in precisions if known and word in known.disturbed]:
            reason = known.disturbed[again[0]] if known else ""
            if self._quiet.comes(f"The probe of {cell.device} was disturbed ({reason})", _seconds(again)):
                self._probe_once(cell, again, "again")

    def _probe_once(self, cell: Cell, precisions: Sequence[Precision], why: str) -> bool:
        device, cell = cell.device, replace(cell, engine=PROBING_ENGINE, keras=None)
        before = self.known.setdefault(_probed(cell), self._read(cell))
        if not self.hosts.can_probe(cell):
            return False
        about = f"{', '.join(precisions)}; about {_seconds(precisions)} s, {why}"
        self.say(f"Probing what {device} can do at most ({about}) ...")
        try:
            found = self.hosts.probe(cell, precisions)
        except ProbeFailedError as error:
            self.say(f"{device} could not be probed: {error}. Its cells have no share of a ceiling.")
            return False
        if is_allowed():
            found = replace(found, disturbed={})
        self.known[_probed(cell)] = joined = before.joined(found) if before else found
        try:
            with writing_errors(CEILINGS):
                keep_of_machine(self.root, of_cell(cell, self.environment), device.value, joined)
        except (WriteError, RefusedError) as error:
            self.say(f"{error}. The next sweep probes again.")
        return True

    def judged(self, record: Record) -> Record:
        """`record` with its device's ceilings; invalid if it is faster than they allow."""
        # The device is probed again for a cell above the ceiling, since another process may have slowed the probe; and
        # if that is known, after the first undisturbed cell and one that comes near it.
        record, measured = self._with_ceilings(record), record.measurement
        word, _ = verdict_on(record)
        if word != Status.ok or measured is None:
            return record
        probed, rate = _probed(record.cell), flops_per_s(record.cell, measured)
        while rate and (why := self._too_low(record, rate)) and self.num_reprobes[probed] < MAX_REPROBES:
            self.num_reprobes[probed] += 1
            self.probe(record.cell, formats_of(record.cell.precision), f"again: {why}")
            record = self._with_ceilings(record)
        reason = judge(record.cell, measured, self.known.get(probed))
        return replace(record, status=Status.invalid, reason=reason) if reason else record

    def _with_ceilings(self, record: Record) -> Record:
        known = self.known.get(_probed(record.cell))
        return replace(record, environment={**record.environment, "ceilings": plain(known)})

    def _too_low(self, record: Record, rate: float) -> str:
        """Why the ceiling may be too low; empty if it is not."""
        known, precision = self.known.get(_probed(record.cell)), record.cell.precision
        if known is not None and (load := known.disturbance(precision)):
            first = not self.num_reprobes[_probed(record.cell)]
            is_near = rate > NEAR * (known.ceiling_of(precision) or math.inf)
            return f"it was disturbed ({load})" if first or is_near else ""
        ceiling = _ceiling(record)
        return f"{record.label} was faster" if ceiling is not None and rate > ceiling else ""


def _seconds(precisions: Sequence[Precision]) -> int:
    """How long a probe takes, about; no wait for a quiet machine, to repeat it, takes longer."""
    return SECONDS + SECONDS_EACH * len(precisions)


def _probed(cell: Cell) -> Probed:
    return cell.device, cell.python


def _ceiling(record: Record) -> float | None:
    ceilings = ceilings_of(record)
    return ceilings.ceiling_of(record.cell.precision) if ceilings else None


def slow_formats(ceilings: Ceilings | None, precisions: Iterable[Precision]) -> Iterator[str]:
    """A sentence for each 16-bit format of the cells that is probed far below fp32: the device lacks its units."""
    rates = ceilings.flops_per_s if ceilings else {}
    fp32 = rates.get(Precision.fp32)
    for word in dict.fromkeys(word for precision in precisions for word in formats_of(precision)):
        rate = rates.get(word)
        if word in SIXTEEN_BITS and fp32 and rate and fp32 >= FAR_BELOW * rate:
            known = f"{significant(rate / 1e9, 2)} against {significant(fp32 / 1e9, 2)} GFLOP/s in fp32"
            slower = f"about {fp32 / rate:.0f} times slower than fp32's, or more"
            yield f"{word} has no units here ({known}): expect its cells {slower}"
