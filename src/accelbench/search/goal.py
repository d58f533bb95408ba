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
LATENCY = {"latency_s": 0.05, "latency_steps": 50}  # of a short window, where latency matters
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

    def short(self, cell: Cell) -> Cell:
        """The cell in a short window; the same cell if its protocol has no window, or energy needs all of it."""
        if cell.protocol != Protocol.window or self.by == "energy":
            return cell
        bounds: Mapping[str, float] = vars(SHORT) | (LATENCY if self.needs_latency else {})
        asked = vars(cell.window)
        least = {name: min(bound, asked[name]) for name, bound in bounds.items() if name != "width"}
        return replace(cell, window=replace(cell.window, **least), breakdown_s=0.0, save_weights=False)

    def sample(self, record: Record, asked: Cell) -> Sample:
        """What the record of a process of the cell tells the race; may raise the UserError of `value`.

        A disturbed process says as little as one that was cut off. `asked` is the cell with the time limit that the
        user gave it, which may have been cut for the process.
        """
        is_cut = record.status == Status.timeout and record.cell.timeout_s < asked.timeout_s
        if is_cut or disturbed.reason(record):
            return Sample(None, is_cut=True)
        value = self.value(record)
        if value is None:
            return Sample(None)
        latency_ms = _latency_ms(record) if self.needs_latency else None
        score = math.log(value) if self.by == "throughput" else -math.log(value)
        return Sample(score, -math.inf if latency_ms is None else math.log(latency_ms))

    def value_of(self, score: float) -> float:
        """The value that has this score."""
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
            return _latency_ms(record)
        joules = summarise(record)["energy_j_per_sample"]
        if not isinstance(joules, float):
            device = record.cell.device
            raise UserError(f"--by energy: {device} has no counter of energy here that covers {record.label}")
        return joules


def _latency_ms(record: Record) -> float | None:
    steps = record.measurement.latency_s if record.measurement else []
    return 1e3 * median(steps) if steps else None
