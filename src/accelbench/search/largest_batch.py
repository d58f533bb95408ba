"""Finds the largest batch that fits in memory. Each try is a process that runs one step and leaves a record.

Batches are doubled until one does not fit. Then the gap to the largest batch that fits is halved. No batch should
need much more than the memory, because other programs suffer while memory runs out.
"""

import io
import math
import time
from dataclasses import replace

import psutil
from rich.console import Console

from accelbench.data.arrays import read_counts
from accelbench.devices.registry import look
from accelbench.errors import UserError
from accelbench.grid.plan import data_of, skip_reason
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import say
from accelbench.project import shown, workplace
from accelbench.schema.cell import MODULE, Cell, Device, Mode, Pipeline, Protocol, Status
from accelbench.schema.record import Record
from accelbench.settings.config import SweepOptions
from accelbench.sweep import run
from accelbench.sweep.session import prepare_missing

MAX_BATCH = 1 << 20
GB = 1e9
# The search ends when the smallest batch that does not fit exceeds the largest batch that fits by at most this share.
TOLERANCE = 1 / 8
ABOVE = 1.06  # a batch that should take this share of the memory is tried


def next_batch(fits: int, fails: float, room: float, most: int = MAX_BATCH) -> int | None:
    """Returns the batch to try next. Returns None if the largest batch is found.

    Args:
        fits: largest batch that fits; 0 if none has fitted yet.
        fails: smallest batch that does not fit; inf if all have fitted.
        room: the memory divided by what the largest batch took.
        most: the largest batch to try.
    """
    if fails - fits <= max(1, TOLERANCE * fits) or fits == most:
        return None
    if math.isfinite(fails):
        return int(fits + fails) // 2
    growth = min(2.0, max(ABOVE * room, 1 + TOLERANCE))
    return min(math.ceil(growth * fits), most)


def find(cell: Cell, options: SweepOptions, console: Console, hosts: Hosts, budget_s: float) -> int:
    """Searches for the largest batch, and begins with the cell's batch. Prints the result. Returns the exit status.

    A batch does not fit if memory ran out or the process was killed. Any other failure ends the search. A batch is
    tried only if its process can end within `budget_s`.

    Raises UserError: this machine skips the cell, or its batch is larger than the data set.
    """
    if reason := skip_reason(cell):
        raise UserError(f"--largest-batch: this machine skips the cell: {reason}")
    place = workplace().with_data(options.data_root)
    prepare_missing(place, cell.data, console)
    most = MAX_BATCH
    # Other data have no end.
    if cell.data.pipeline in (Pipeline.array, Pipeline.jpeg) and cell.data.name != MODULE:
        most = read_counts(data_of([cell], place)[1])["train" if cell.mode == Mode.train else "test"]
    if cell.batch_size > most:
        raise UserError(f"batch_size={cell.batch_size}: the data set has only {most} samples")
    memory = look(cell.device).memory_bytes
    if memory is not None and cell.device == Device.cpu:  # other programs use a part of it
        memory = min(memory, psutil.virtual_memory().available)
    bound = "" if memory is None else f" in {memory / GB:.1f} GB of memory on the {cell.device}"
    say(console, f"Trying batches of {cell.batch_size:,} to {most:,} samples{bound} ...")
    # In training, the optimizer allocates its memory at the end of the first step. So the second step needs the most.
    warmup = 1 if cell.mode == Mode.train else 0
    step = replace(cell, protocol=Protocol.steps, warmup=warmup, steps=1, breakdown_s=0.0)
    options = replace(options, tracking="none")
    # The lines of a sweep are about speed, which one step does not show.
    quiet = console if options.verbose else Console(file=io.StringIO())
    ends_s = time.monotonic() + budget_s
    fits = 0
    fails = math.inf
    room = 2.0
    takes_s = 0.0
    largest = "none yet"
    why = f"more than {most:,} was not tried"
    batch: int | None = cell.batch_size
    while batch is not None:
        if time.monotonic() + takes_s > ends_s:
            longer = f"it takes about {takes_s:.0f} s, longer than the rest of --budget (default: 1m)"
            why = f"{batch:,} was not tried: {longer}"
            break
        done = run.run(
            [replace(step, batch_size=batch)], options, quiet, hosts=hosts, show=lambda result: None
        )
        done.check_request()
        options = replace(options, out=str(done.folder))
        (record,) = done.records
        outcome = f"{record.status}: {record.reason}"
        if record.status == Status.ok:
            peak = _peak_bytes(record)
            fits = batch
            room = memory / peak if memory and peak else 2.0
            took = f", which takes {peak / GB:.1f} GB" if peak else ""
            outcome = f"fits{took}"
            largest = f"{batch:,}{took}"
        else:
            fails = batch
            why = f"{batch:,} does not ({record.reason})"
        say(console, f"{batch:,} samples, {record.wall_s:.0f} s: {outcome}")
        if record.status not in (Status.ok, Status.oom, Status.killed):
            return 1
        batch = next_batch(fits, fails, room, most)
        takes_s = record.wall_s * max(1.0, (batch or 0) / fits) if fits else 0.0
    say(console, f"The largest batch that fits: {largest}; {why}.")
    say(console, f"Records of the tries: {shown(done.folder)}")
    return 0 if fits else 1


def _peak_bytes(record: Record) -> int | None:
    if record.measurement is None:
        return None
    on_cpu = record.cell.device == Device.cpu
    return record.measurement.peak_host_bytes if on_cpu else record.measurement.peak_device_bytes
