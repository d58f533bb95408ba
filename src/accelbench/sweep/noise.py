"""Where a machine's noise comes from, and what to do about it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from accelbench.devices.cgroup import cpu_quota
from accelbench.judging.row import summarise
from accelbench.schema.record import Record, Row
from accelbench.stats.robust import median

MAX_OTHERS_PERCENT = 10.0  # of one core
MAX_STEAL, MAX_SYSTEM = 0.01, 0.05  # shares of processor time
GOVERNOR = Path("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
SMT = Path("sys/devices/system/cpu/smt/active")


def steal() -> tuple[float, float]:
    """Processor seconds since the machine started: that the hypervisor gave to others, and all."""
    times = psutil.cpu_times()
    return float(getattr(times, "steal", 0.0)), float(sum(times))


def advice(
    records: Sequence[Record], before: tuple[float, float], after: tuple[float, float], root: Path = Path("/")
) -> list[str]:
    """A sentence for each source of noise that was seen.

    Args:
        records: of the processes that were measured meanwhile.
        before: of `steal`, before the first of them.
        after: the same, after the last one.
        root: the folder that holds proc/ and sys/.
    """
    return [*_of_records(records), *_of_machine(before, after, root)]


def _of_records(records: Sequence[Record]) -> Iterator[str]:
    rows = [summarise(record) for record in records]
    others = _middle(rows, "other_cpu_utilization_percent")
    if others > MAX_OTHERS_PERCENT:
        yield f"Other programs used {others:.0f} % of a core: stop them, or measure when the machine is idle."
    system = _middle(rows, "system_time_share")
    if system > MAX_SYSTEM:
        yield f"The kernel took {100 * system:.0f} % of the processor time, for page faults: try allocator=jemalloc."


def _of_machine(before: tuple[float, float], after: tuple[float, float], root: Path) -> Iterator[str]:
    total_s = after[1] - before[1]
    share = (after[0] - before[0]) / total_s if total_s > 0 else 0.0
    if share > MAX_STEAL:
        yield f"The hypervisor gave {100 * share:.1f} % of the processor time to other machines."
    if (quota := cpu_quota(root)) is not None:
        yield f"A quota of {quota:g} cores stops processes in the middle of a step: give the container whole cores."
    governor = _text(root / GOVERNOR)
    if governor not in ("", "performance"):
        yield f"The CPU's governor is {governor}: performance keeps the clock steady."
    if _text(root / SMT) == "1":
        yield "Two threads share each core (SMT): threads= at half of the logical cores may be steadier."


def _middle(rows: Sequence[Row], column: str) -> float:
    known = [float(value) for row in rows if isinstance(value := row[column], int | float)]
    return median(known) if known else 0.0


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
