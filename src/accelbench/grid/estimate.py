"""How long a cell will take."""

from collections.abc import Collection, Iterable
from pathlib import Path

from accelbench.project import RECORDS
from accelbench.schema.cell import Cell
from accelbench.schema.record import read_all
from accelbench.schema.vocab import XLA, Protocol, Status

# First guesses for cells that were never measured here: what a cell costs besides its windows (process, model,
# tracking), and what it takes to compile.
OVERHEAD_S = 0.5
XLA_COMPILE_S = 5.0
INDUCTOR_COMPILE_S = 30.0


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
    return OVERHEAD_S + compile_s + window.warmup_s + window.block_s + window.measure_s + window.latency_s
