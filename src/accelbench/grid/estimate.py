"""How long a cell will take."""

import json
from collections.abc import Iterable
from pathlib import Path

from accelbench.grid.plan import Planned
from accelbench.project import RECORDS
from accelbench.schema.vocab import Device, Protocol, Status

# What a cell costs beside its windows (process, model, tracking), and for compilation: first guesses
# of `estimate_s`, for cells that were never run here.
OVERHEAD_S = 0.5


XLA_COMPILE_S = 5.0


INDUCTOR_COMPILE_S = 30.0


def known_walls(folders: Iterable[Path]) -> dict[str, float]:
    """Seconds that cells took, by cell id, from the records under `folders`.

    Skipped ones took none, and are passed over as unreadable ones are.
    """
    walls = {}
    for folder in folders:
        for path in sorted(folder.rglob(RECORDS)):
            try:
                values = json.loads(path.read_text())
                if values["status"] != Status.skipped:
                    walls[values["cell_id"]] = float(values["wall_s"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
    return walls


def estimate_s(planned: Planned, walls: dict[str, float]) -> float | None:
    """Seconds that the cell will take: as long as last time, else its windows'; None for unknown epochs or steps."""
    if planned.skip_reason is not None:
        return 0.0
    cell = planned.cell
    if cell.id in walls:
        return walls[cell.id]
    if cell.protocol != Protocol.window:
        return None
    compile_s = XLA_COMPILE_S if cell.device in (Device.xla_cpu, Device.tpu) else 0.0
    compile_s += INDUCTOR_COMPILE_S if cell.options.compile else 0.0
    window = cell.window
    return OVERHEAD_S + compile_s + window.warmup_s + window.block_s + window.measure_s + window.latency_s
