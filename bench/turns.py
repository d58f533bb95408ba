"""What several benches share: cells measured in processes of their own, in turns with something else that is timed."""

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
Numbers = tuple[float, ...]  # of a process, one for each row
# Variables of glibc, on both sides: free memory is kept. Otherwise it is chance how much of it a process gives back to
# the kernel and asks for again: 0 to 3,200 page faults a step, and one process is 10 % faster than the next.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": 1 << 25, "MALLOC_TRIM_THRESHOLD_": 1 << 32, "MALLOC_TOP_PAD_": 1 << 26}


def compare_in_turns(
    names: Sequence[str], width: int, num_rounds: int, ours: Callable[[], Numbers], plain: Callable[[], Numbers]
) -> None:
    """Prints a row for each name: the number of accelbench over a plain loop's, and of the loop over itself (A/A).

    A round is accelbench and two processes of the plain loop, in a rotating order. Compared are the ratios within a
    round. The interval of accelbench's ratio should contain 1 and be no wider than 1.5 times that of the loop against
    itself.
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
    """Keeps free memory in the processes to come, and prints the heading of `compare_in_turns`."""
    os.environ.update({name: str(value) for name, value in KEEP_MEMORY.items()})
    print(f"{'case':<{width}} {'plain/s':>8} {'ratio':>6}   95 % interval   {'A/A':>6}   95 % interval   within bounds")


@contextmanager
def new_folder() -> Iterator[Path]:
    """A folder that the command line may write to, for a while."""
    runs = workplace().root / "runs"
    runs.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs, prefix="bench-") as folder:
        yield Path(folder)


def run(words: Sequence[str], tracking: str = "none", statuses: Collection[int] = (0,)) -> list[Record]:
    """Runs the command line with these settings, which ends with one of `statuses`; the records, oldest first."""
    with new_folder() as folder:
        command = [*CLI, *words, f"out={folder}", f"tracking={tracking}"]
        if (done := subprocess.run(command, stdout=subprocess.DEVNULL)).returncode not in statuses:
            done.check_returncode()
        return records_in(folder)


def records_in(folder: Path) -> list[Record]:
    """The records in a folder, oldest first."""
    return sorted(map(read, folder.glob(RECORDS)), key=lambda record: record.started_at)


def measured(record: Record) -> Measurement:
    """What was measured of a cell, which must not have failed."""
    assert record.measurement is not None, record.reason
    return record.measurement


def rate_of(record: Record) -> float:
    """Samples/s: the median of the blocks."""
    return median(measured(record).steady_rates)


def rate_by_cell(*words: str) -> Numbers:
    """Samples/s of the one cell that the command line measures with these settings."""
    (record,) = run(words)
    return (rate_of(record),)


def windows_s(record: Record) -> float:
    """Seconds of warm-up and measurement in one record: of its blocks, single steps and steps in phases."""
    found = measured(record)
    phases = measured(record).breakdown
    of_phases = sum(map(sum, [phases.undisturbed_s, *phases.phases_s.values()])) if phases else 0.0
    return found.warmup_total_s + sum(block.seconds for block in found.blocks) + sum(found.latency_s) + of_phases


def printed(*words: object) -> Numbers:
    """The numbers in the last line that a command of this Python prints."""
    command = [sys.executable, *map(str, words)]
    last = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    return tuple(map(float, last.split()))
