"""Where a machine's noise comes from, and what to do about it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from accelbench.judging.row import summarise
from accelbench.judging.warnings import MAX_OTHERS_PERCENT, MAX_SYSTEM_SHARE, page_faults_matter
from accelbench.schema.record import Record, number_of
from accelbench.stats.order_statistics import median

MAX_STEAL = 0.01  # of the processor time
GOVERNOR = Path("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
SMT = Path("sys/devices/system/cpu/smt/active")


def steal() -> tuple[float, float]:
    """Processor seconds since the machine started: that the hypervisor gave to others, and all."""
    times = psutil.cpu_times()
    return float(getattr(times, "steal", 0.0)), float(sum(times))


@dataclass(frozen=True)
class Disturbance:
    """What disturbed a process; None where it is unknown."""

    others_percent: float | None  # of one core, that other programs used
    system_share: float | None  # of its processor time, that the kernel took
    page_faults_per_s: float | None
    busy_percent: float | None  # of one core
    throttled_s: float | None  # that a quota stopped it

    @classmethod
    def of(cls, record: Record) -> "Disturbance":
        row = summarise(record)
        values = record.system.values.get("cpu_quota_throttled_s", []) if record.system else []
        throttled = [value for value in values if value is not None]
        return cls(
            others_percent=number_of(row, "other_cpu_utilization_percent"),
            system_share=number_of(row, "system_time_share"),
            page_faults_per_s=number_of(row, "page_faults_per_s"),
            busy_percent=number_of(row, "cpu_utilization_percent"),
            throttled_s=throttled[-1] - throttled[0] if throttled else None,
        )


def advice(
    seen: Sequence[Disturbance], before: tuple[float, float], after: tuple[float, float], root: Path = Path("/")
) -> list[str]:
    """A sentence for each source of noise that was seen, and for settings of the machine that may be one.

    `before` and `after` are what `steal` said before the first of the processes `seen`, and after the last one; `root`
    is the folder that holds sys/.
    """
    return [*_of_processes(seen), *_of_machine(before, after, root)]


def _of_processes(seen: Sequence[Disturbance]) -> Iterator[str]:
    others = _middle(each.others_percent for each in seen)
    if others > MAX_OTHERS_PERCENT:
        yield f"Other programs used {others:.0f} % of a core: stop them, or measure when the machine is idle."
    system, faults = _middle(each.system_share for each in seen), _middle(each.page_faults_per_s for each in seen)
    if system > MAX_SYSTEM_SHARE:
        many = page_faults_matter(faults, _middle(each.busy_percent for each in seen))
        cure = ", mostly for page faults: try allocator=jemalloc" if many else ""
        yield f"The kernel took {100 * system:.0f} % of the processor time{cure}."
    num_throttled = sum(bool(each.throttled_s) for each in seen)
    if num_throttled:
        yield f"A CPU quota stopped {num_throttled} of {len(seen)} processes meanwhile: raise the container's limit."


def _of_machine(before: tuple[float, float], after: tuple[float, float], root: Path) -> Iterator[str]:
    total_s = after[1] - before[1]
    share = (after[0] - before[0]) / total_s if total_s > 0 else 0.0
    if share > MAX_STEAL:
        yield f"The hypervisor gave {100 * share:.1f} % of the processor time to other machines."
    governor = _text(root / GOVERNOR)
    if governor not in ("", "performance"):
        yield f"The CPU's governor is {governor}: with performance the clock may be steadier."
    if _text(root / SMT) == "1":
        yield "Two threads share each core (SMT): threads= at half of the logical cores may be steadier."


def _middle(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return median(known) if known else 0.0


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
