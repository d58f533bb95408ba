"""What became of what was planned: which devices were there, and which cells are not ok, and why."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from accelbench.answers.process import NOT_RUN, UNREADABLE, Process
from accelbench.judging.disturbed import DISTURBED
from accelbench.presentation import UNKNOWN
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Column, Table, count, tabulate
from accelbench.schema.vocab import UNEXPECTED, Device, Status

LABELS_SHOWN = 2
# An outcome, its reason, and the processes that share both.
SameReason = tuple[str, str | None, list[Process]]
REASON_COLUMNS: list[Column[SameReason]] = [
    Column("status", lambda same: same[0]),
    Column("cells", lambda same: len(same[2]), count),
    Column("reason", lambda same: same[1]),
    Column("which", lambda same: _first_labels(same[2])),
    Column("suites", lambda same: ", ".join(dict.fromkeys(process.cell.suite for process in same[2]))),
]
FAILURE_COLUMNS: list[Column[tuple[str, Process]]] = [
    Column("suite", lambda failure: failure[0]),
    Column("cell", lambda failure: failure[1].label),
    Column("status", lambda failure: failure[1].outcome),
    Column("reason", lambda failure: failure[1].reason),
    Column("last line of the error", lambda failure: _last_line(failure[1])),
]


def reasons(sweeps: Sequence[Sweep]) -> Table | None:
    """The processes that are not ok by their reason, unexpected failures first; None if all are ok."""
    groups: dict[tuple[str, str | None], list[Process]] = defaultdict(list)
    for process in (process for sweep in sweeps for process in sweep.planned if not process.is_ok):
        groups[process.outcome, process.reason].append(process)
    order = [*(status for status in Status if status in UNEXPECTED), DISTURBED, UNREADABLE, NOT_RUN, Status.skipped]
    same = [(outcome, reason, alike) for (outcome, reason), alike in groups.items()]
    same.sort(key=lambda each: (order.index(each[0]), -len(each[2])))
    notes = ["processes.csv lists all of them."]
    return tabulate("What is missing, and why", REASON_COLUMNS, same, notes) if same else None


def _first_labels(processes: Sequence[Process]) -> str:
    more = len(processes) - LABELS_SHOWN
    shown = ", ".join(process.label for process in processes[:LABELS_SHOWN])
    return shown + (f" and {more} more" if more > 0 else "")


def failures(sweeps: Sequence[Sweep]) -> Table | None:
    """Each process that failed unexpectedly, with the last line of its error; None if none did."""
    failed = [
        (sweep.suite, process)
        for sweep in sweeps
        for process in sweep.planned
        if process.record is not None and process.record.status in UNEXPECTED
    ]
    return tabulate("Failed, cell by cell", FAILURE_COLUMNS, failed) if failed else None


def _last_line(process: Process) -> str | None:
    lines = ((process.record.error if process.record else None) or "").strip().splitlines()
    return lines[-1].strip() if lines else None


# A device that was asked for, and the processes that were planned on it, at least one.
OnDevice = tuple[Device, list[Process]]
DEVICE_COLUMNS: list[Column[OnDevice]] = [
    Column("device", lambda each: each[0]),
    Column("did it run", lambda each: "yes" if _num_ok(each) else "no"),
    Column("what it is", lambda each: _names(each, _described)),
    Column("cells ok", lambda each: _num_ok(each), count),
    Column("cells not ok", lambda each: len(each[1]) - _num_ok(each), count),
    Column("most frequent reason", lambda each: _frequent_reason(each)),
]


def devices(sweeps: Sequence[Sweep]) -> Table:
    """Whether each device that was asked for was there: what it is, and how many processes ran on it."""
    return tabulate("What was measured on which device", DEVICE_COLUMNS, _by_device(sweeps))


def device_texts(sweeps: Sequence[Sweep]) -> list[str]:
    """Each device in a few words: `cpu: AMD EPYC`, or `gpu: not measured (no NVIDIA driver found)`."""
    return [
        f"{each[0]}: " + (_names(each, _name) or f"not measured ({_frequent_reason(each) or UNKNOWN})")
        for each in _by_device(sweeps)
    ]


def _by_device(sweeps: Sequence[Sweep]) -> list[OnDevice]:
    found: dict[Device, list[Process]] = {device: [] for device in Device}
    for process in (process for sweep in sweeps for process in sweep.planned):
        found[process.cell.device].append(process)
    return [(device, processes) for device, processes in found.items() if processes]


def _num_ok(each: OnDevice) -> int:
    return sum(process.is_ok for process in each[1])


def _names(each: OnDevice, name: Callable[[Process], str]) -> str:
    """What the device is in its ok processes; empty if none is ok."""
    return "; ".join(dict.fromkeys(filter(None, (name(process) for process in each[1] if process.is_ok))))


def _name(process: Process) -> str:
    return str(process.row["device_name"] or "")


def _described(process: Process) -> str:
    """What the device calls itself, and what is known of a GPU, such as `80 GB, compute capability 8.0`."""
    record = process.record
    if record is None or record.cell.device != Device.gpu or record.measurement is None:
        return _name(process)
    gpus = record.environment.get("machine", {}).get("gpu_details", [])[: record.measurement.num_devices]
    known = []
    units = [("memory_gb", "", " GB"), ("multiprocessors", "", " multiprocessors")]
    for key, what, unit in [*units, ("compute_capability", "compute capability ", "")]:
        values = dict.fromkeys(f"{gpu[key]}{unit}" for gpu in gpus if gpu.get(key) is not None)
        known += [what + " + ".join(values)] if values else []
    if driver := record.environment.get("versions", {}).get("nvidia-driver"):
        known.append(f"driver {driver}")
    return _name(process) + (f" ({', '.join(known)})" if known else "")


def _frequent_reason(each: OnDevice) -> str | None:
    found = [process.disturbed or process.row["reason"] for process in each[1] if not process.is_ok]
    reasons = Counter(str(reason) for reason in found if reason)
    return reasons.most_common(1)[0][0] if reasons else None
