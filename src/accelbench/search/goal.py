"""The processes of a search: their cells, in short windows and in full, and what a record tells the race."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

from accelbench.errors import UserError
from accelbench.judging import disturbed
from accelbench.judging.row import steady_rates, summarise
from accelbench.schema.cell import Cell, Window
from accelbench.schema.record import Record
from accelbench.schema.vocab import Protocol, Status
from accelbench.search.race import Sample

# Enough to tell cells apart that differ by a few per cent; of slow steps, a first one and another one.
SHORT = Window(
    warmup_steps=0, warmup_s=0.05, measure_s=0.1, block_s=0.02, latency_s=0.0, latency_steps=0, width=Window.width
)
LATENCY_S, LATENCY_STEPS = 0.05, 50  # of a short window, where latency matters
# What a search may look for -> the unit of its values. More throughput is better, and less of the others.
UNITS = {"throughput": "samples/s", "latency": "ms", "energy": "J/sample"}


@dataclass(frozen=True)
class Goal:
    """What a search looks for."""

    by: str  # one of `UNITS`
    latency_ms: float | None  # the longest median step of a cell that may be the best; None for no limit
    margin: float  # by which share another cell may be better
    budget_s: float
    per_batch: bool  # whether each batch size has a best cell of its own

    @property
    def needs_latency(self) -> bool:
        return self.by == "latency" or self.latency_ms is not None

    @property
    def log_limit(self) -> float | None:
        """The logarithm of the limit in milliseconds; None for no limit."""
        return None if self.latency_ms is None else math.log(self.latency_ms)

    def short(self, cell: Cell) -> Cell:
        """The cell in a short window; the same cell if its protocol has no window, or energy needs all of it."""
        if cell.protocol != Protocol.window or self.by == "energy":
            return cell
        bounds: Mapping[str, float] = vars(SHORT)
        if self.needs_latency:
            bounds = {**bounds, "latency_s": LATENCY_S, "latency_steps": LATENCY_STEPS}
        asked = vars(cell.window)
        least = {name: min(bound, asked[name]) for name, bound in bounds.items() if name != "width"}
        return replace(cell, window=replace(cell.window, **least), breakdown_s=0.0, save_weights=False)

    def sample(self, record: Record, asked: Cell) -> Sample:
        """What the record of a process of the cell tells the race.

        A disturbed process says as little as one that was cut off. `asked` is the cell with the time limit that the
        user gave it, which may have been cut for the process.

        Raises:
            UserError: the energy of an ok cell is unknown.
        """
        is_cut = record.status == Status.timeout and record.cell.timeout_s < asked.timeout_s
        if is_cut or disturbed.reason(record):
            return Sample(None, is_cut=True)
        value = self.value(record)
        if value is None:
            return Sample(None)
        latency_s = _latency_s(record) if self.needs_latency else None
        limited = -math.inf if latency_s is None else math.log(1e3 * latency_s)
        return Sample(self.score(value), limited)

    def score(self, value: float) -> float:
        """The logarithm of what is to be large."""
        return math.log(value) if self.by == "throughput" else -math.log(value)

    def value_of(self, score: float) -> float:
        """The inverse of `score`."""
        return math.exp(score if self.by == "throughput" else -score)

    def value(self, record: Record) -> float | None:
        """Samples/s, milliseconds of the median step, or J/sample; None unless the record is ok and undisturbed.

        Raises:
            UserError: the energy of an ok cell is unknown.
        """
        if record.status != Status.ok or record.measurement is None or disturbed.reason(record):
            return None
        if self.by == "throughput":
            return median(steady_rates(record.measurement))
        if self.by == "latency":
            latency_s = _latency_s(record)
            return None if latency_s is None else 1e3 * latency_s
        joules = summarise(record)["energy_j_per_sample"]
        if not isinstance(joules, float):
            raise UserError(
                f"--by energy: {record.cell.device} has no counter of energy here that covers {record.label}"
            )
        return joules


def _latency_s(record: Record) -> float | None:
    steps = record.measurement.latency_s if record.measurement else []
    return median(steps) if steps else None
