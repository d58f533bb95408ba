"""Finds the largest batch that fits in memory. Each try is a process that runs one step and leaves a record.

Batches are doubled until one does not fit. Then the gap to the largest batch that fits is halved. No batch should
need much more than the memory, because other programs suffer while memory runs out.
"""

import io
import math
import time
from dataclasses import dataclass, replace

import psutil
from rich.console import Console

from accelbench.data.arrays import read_counts
from accelbench.devices.registry import look
from accelbench.errors import UserError
from accelbench.grid.plan import data_of, skip_reason
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import say
from accelbench.project import workplace
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record
from accelbench.schema.vocab import MODULE, Device, Mode, Pipeline, Protocol, Status
from accelbench.settings.config import SweepOptions
from accelbench.sweep import run
from accelbench.sweep.session import prepare_missing

MAX_BATCH = 1 << 20
GB = 1e9
# The search ends when the smallest batch that does not fit exceeds the largest batch that fits by at most this share.
TOLERANCE = 1 / 8
ABOVE = 1.06  # a batch that should take this share of the memory is tried


@dataclass
class Tries:
    """Records the batches that were tried and whether they fit. Chooses the next batch to try."""

    start: int
    most: int = MAX_BATCH
    largest: int | None = None  # largest batch that fits
    room: float = 2.0  # the memory divided by what the largest batch took
    smallest: int | None = None  # smallest batch that does not fit

    def add(self, batch: int, fits: bool) -> None:
        if fits:
            self.largest = batch
        else:
            self.smallest = batch

    def next(self) -> int | None:
        """Returns the batch to try next. Returns None if the largest batch is found."""
        largest, smallest = self.largest, self.smallest
        if largest is None:
            return self.start if smallest is None else smallest // 2 or None
        if smallest is None:
            growth = min(2.0, max(ABOVE * self.room, 1 + TOLERANCE))
            return min(math.ceil(growth * largest), self.most) if largest < self.most else None
        is_close = smallest - largest <= max(1, TOLERANCE * largest)
        return None if is_close else (largest + smallest) // 2


def find(
    cell: Cell, options: SweepOptions, console: Console, hosts: Hosts, budget_s: float, most: int = MAX_BATCH
) -> int:
    """Searches for the largest batch, and begins with the cell's batch. Prints the result. Returns the exit status.

    A batch does not fit if memory ran out or the process was killed. Any other failure ends the search. A batch is
    tried only if its process can end within `budget_s`.

    Raises UserError: this machine skips the cell, or the cell's batch is larger than `most`.
    """
    if reason := skip_reason(cell):
        raise UserError(f"--largest-batch: this machine skips the cell: {reason}")
    place = workplace().with_data(options.data_root)
    prepare_missing(place, cell.data, console)
    if cell.data.pipeline in (Pipeline.array, Pipeline.jpeg) and cell.data.name != MODULE:  # other data have no end
        counts = read_counts(data_of([cell], place)[1])
        most = min(most, counts["train" if cell.mode == Mode.train else "test"])
    if cell.batch_size > most:
        raise UserError(f"batch_size={cell.batch_size}: is larger than the largest batch to try: use at most {most}")
    memory = look(cell.device).memory_bytes
    if memory is not None and cell.device == Device.cpu:  # other programs use a part of it
        memory = min(memory, psutil.virtual_memory().available)
    tries = Tries(cell.batch_size, most)
    bound = "" if memory is None else f" in {memory / GB:.1f} GB of memory on the {cell.device}"
    say(console, f"Trying batches of {cell.batch_size:,} to {most:,} samples{bound} ...")
    # In training, the optimizer allocates its memory at the end of the first step. So the second step needs the most.
    warmup = 1 if cell.mode == Mode.train else 0
    step = replace(cell, protocol=Protocol.steps, warmup=warmup, steps=1, breakdown_s=0.0)
    options = replace(options, tracking="none")
    # The lines of a sweep are about speed, which one step does not show.
    quiet = console if options.verbose else Console(file=io.StringIO())
    ends_s = time.monotonic() + budget_s
    wall_s = 0.0
    took = ""  # the memory of the largest batch that fits, in words
    so_far = "No batch has fitted yet"
    why_smallest = ""
    while (batch := tries.next()) is not None:
        takes_s = wall_s * max(1.0, batch / (tries.largest or batch))
        if time.monotonic() + takes_s > ends_s:
            why = f"it takes about {takes_s:.0f} s, longer than the rest of --budget (default: 1m)"
            say(console, f"{so_far}. {batch:,} was not tried: {why}.")
            break
        done = run.run([replace(step, batch_size=batch)], options, quiet, hosts=hosts, show=lambda result: None)
        done.check_request()
        options = replace(options, out=str(done.folder.relative_to(done.folder.parents[1])))
        (record,) = done.records
        fits = record.status == Status.ok
        tries.add(batch, fits)
        if fits:
            wall_s = record.wall_s
            peak = _peak_bytes(record)
            took = f", which takes {peak / GB:.1f} GB" if peak else ""
            tries.room = memory / peak if memory and peak else 2.0
            so_far = f"{batch:,} fits{took}"
        outcome = f"fits{took}" if fits else f"{record.status}: {record.reason}"
        say(console, f"{batch:,} samples, {record.wall_s:.0f} s: {outcome}")
        if fits:
            continue
        if record.status not in (Status.oom, Status.killed):
            say(console, f"{so_far}. The search ended: {record.label}: {outcome}")
            return 1
        why_smallest = f"{batch:,} does not ({record.reason})"
    else:
        if tries.largest is None:
            say(console, "No batch fits: not even one sample does.")
            return 1
        above = why_smallest or f"more than {most:,} was not tried"
        say(console, f"The largest batch that fits: {tries.largest:,}{took}; {above}.")
    if options.out is not None:
        say(console, f"Records of the tries: {options.out}")
    return 0


def _peak_bytes(record: Record) -> int | None:
    if record.measurement is None:
        return None
    on_cpu = record.cell.device == Device.cpu
    return record.measurement.peak_host_bytes if on_cpu else record.measurement.peak_device_bytes
