"""How long cells will take."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from accelbench.presentation import duration
from accelbench.project import RECORDS
from accelbench.schema.cell import Cell
from accelbench.schema.record import read_all
from accelbench.schema.vocab import XLA, Protocol, Status

# First guesses for cells that were never measured here: what a cell costs besides its windows (process, model,
# tracking), and what it takes to compile.
OVERHEAD_S = 0.5
XLA_COMPILE_S = 5.0
INDUCTOR_COMPILE_S = 30.0


@dataclass(frozen=True)
class TotalEstimate:
    """How long several cells will take.

    Attributes:
        known_s: seconds of those that can be estimated.
        num_unknown: number of the others.
    """

    known_s: float = 0.0
    num_unknown: int = 0

    @classmethod
    def of(cls, estimates: Collection[float | None]) -> "TotalEstimate":
        """The total of what `estimate_s` gives for each cell."""
        known = [seconds for seconds in estimates if seconds is not None]
        return cls(sum(known), len(estimates) - len(known))

    def __add__(self, other: "TotalEstimate") -> "TotalEstimate":
        return TotalEstimate(self.known_s + other.known_s, self.num_unknown + other.num_unknown)

    def __str__(self) -> str:
        """Such as `about 52 s, and 4 of unknown length`."""
        return f"about {duration(self.known_s)}" + (
            f", and {self.num_unknown} of unknown length" if self.num_unknown else ""
        )


def recorded_durations_s(folders: Iterable[Path], cell_ids: Collection[str]) -> dict[str, float]:
    """Seconds that cells took in earlier sweeps.

    Args:
        folders: searched for records, subfolders included. A record's file name begins with its cell's id: no
            other records are opened.
        cell_ids: the cells to look for.

    Returns:
        Cell id -> seconds. Skipped cells and unreadable records are left out.
    """
    paths = [path for folder in folders for path in sorted(folder.rglob(RECORDS))]
    readable = read_all([path for path in paths if path.name.partition("-")[0] in cell_ids])
    measured = [record for record in readable if record.status != Status.skipped]
    return {record.name.partition("-")[0]: record.wall_s for record in measured}


def estimate_s(cell: Cell, recorded_s: float | None) -> float | None:
    """Seconds that the cell will take if it is not skipped.

    Args:
        cell: the cell.
        recorded_s: seconds that it took in an earlier sweep (`recorded_durations_s`); None if it was never run here.

    Returns:
        The recorded duration if there is one, else the sum of the cell's windows; None for whole epochs and fixed
        steps that were never measured here.
    """
    if recorded_s is not None:
        return recorded_s
    if cell.protocol != Protocol.window:
        return None
    compile_s = XLA_COMPILE_S if cell.device in XLA else 0.0
    compile_s += INDUCTOR_COMPILE_S if cell.options.compile else 0.0
    window = cell.window
    windows_s = window.warmup_s + window.block_s + window.measure_s + window.latency_s + cell.breakdown_s
    return OVERHEAD_S + compile_s + windows_s
