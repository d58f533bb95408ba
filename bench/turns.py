"""Code that several benches share: measures cells in fresh processes that alternate with another program."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from accelbench.project import RECORDS, workplace
from accelbench.schema.measurement import Measurement
from accelbench.schema.record import Record, read
from accelbench.stats.order_statistics import Sample, median

CLI = [sys.executable, "-m", "accelbench.cli"]
BOUNDS = (0.97, 1.03)
UNKNOWN = (float("nan"), float("nan"))
Numbers = tuple[float, ...]  # the results of a process, one for each row
# Variables of glibc, for both sides: processes keep freed memory. Otherwise the amount that a process returns to the
# kernel and requests again is random: 0 to 3,200 page faults a step, and speeds of processes that differ by 10 %.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": 1 << 25, "MALLOC_TRIM_THRESHOLD_": 1 << 32, "MALLOC_TOP_PAD_": 1 << 26}


def compare_in_turns(
    names: Sequence[str], width: int, num_rounds: int, ours: Callable[[], Numbers], plain: Callable[[], Numbers]
) -> None:
    """Prints a row for each name: the ratio of accelbench to a plain loop, and of the loop to itself (A/A).

    A round has a process of accelbench and two processes of the plain loop, in a rotating order. Ratios are within a
    round. The interval of accelbench's ratio should contain 1, and be at most 1.5 times as wide as the loop's own
    interval.
    """
    rounds = []
    for index in range(num_rounds):
        runs = [ours, plain, plain]
        order = [(place + index) % 3 for place in range(3)]
        rates = {which: runs[which]() for which in order}
        rounds.append((rates[0], rates[1], rates[2]))
    for place, name in enumerate(names):
        ratios = [ours_s[place] / first[place] for ours_s, first, _ in rounds]
        against_itself = [second[place] / first[place] for _, first, second in rounds]
        low, high = Sample(ratios).percentile_interval(50) or UNKNOWN
        own_low, own_high = Sample(against_itself).percentile_interval(50) or UNKNOWN
        is_near = BOUNDS[0] <= median(ratios) <= BOUNDS[1] and low <= 1 <= high
        verdict = "yes" if is_near and high - low <= 1.5 * (own_high - own_low) else "NO"
        texts = [f"{name:<{width}} {median([first[place] for _, first, _ in rounds]):>8,.1f}"]
        texts += [f"{median(ratios):>6.3f}   {low:.3f} to {high:.3f}  "]
        texts += [f"{median(against_itself):>6.3f}   {own_low:.3f} to {own_high:.3f}   {verdict}"]
        print(*texts, flush=True)


def begin(width: int) -> None:
    """Makes later processes keep freed memory, and prints the heading of `compare_in_turns`."""
    os.environ.update({name: str(value) for name, value in KEEP_MEMORY.items()})
    print(f"{'case':<{width}} {'plain/s':>8} {'ratio':>6}   95 % interval   {'A/A':>6}   95 % interval   within bounds")


@contextmanager
def new_folder() -> Iterator[Path]:
    """A temporary folder for the output of the command line."""
    runs = workplace().root / "runs"
    runs.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs, prefix="bench-") as folder:
        yield Path(folder)


def run(words: Sequence[str], tracking: str = "none", statuses: Collection[int] = (0,)) -> list[Record]:
    """Runs the command line with these settings, and returns the records, oldest first.

    Raises CalledProcessError: the exit status is none of `statuses`.
    """
    with new_folder() as folder:
        command = [*CLI, *words, f"out={folder}", f"tracking={tracking}"]
        if (done := subprocess.run(command, stdout=subprocess.DEVNULL)).returncode not in statuses:
            done.check_returncode()
        return records_in(folder)


def records_in(folder: Path) -> list[Record]:
    """The records in a folder, oldest first."""
    return sorted(map(read, folder.glob(RECORDS)), key=lambda record: record.started_at)


def measured(record: Record) -> Measurement:
    """The measurement in a record. Its cell must not have failed."""
    assert record.measurement is not None, record.reason
    return record.measurement


def rate_of(record: Record) -> float:
    """Samples/s: the median of the blocks."""
    return median(measured(record).steady_rates)


def rate_by_cell(*words: str) -> Numbers:
    """Samples/s of the single cell that the command line measures with these settings."""
    (record,) = run(words)
    return (rate_of(record),)


def windows_s(record: Record) -> float:
    """Seconds of warm-up and measurement in one record: blocks, single steps, and steps with timed phases."""
    found = measured(record)
    phases = measured(record).breakdown
    of_phases = sum(map(sum, [phases.undisturbed_s, *phases.phases_s.values()])) if phases else 0.0
    return found.warmup_total_s + sum(block.seconds for block in found.blocks) + sum(found.latency_s) + of_phases


def printed(*words: object) -> Numbers:
    """Runs a command with this Python, and returns the numbers in its last line of output."""
    command = [sys.executable, *map(str, words)]
    last = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    return tuple(map(float, last.split()))
