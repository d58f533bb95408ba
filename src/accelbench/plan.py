"""The grid as cells: which record answers for each, which are skipped, how long the rest will take."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from accelbench.cell import Cell, digest
from accelbench.config import SweepOptions
from accelbench.devices.base import DeviceReport
from accelbench.devices.registry import look
from accelbench.record import FILES, SCHEMA_VERSION, Data, write_json
from accelbench.support import why_not
from accelbench.usercode import source_digest
from accelbench.vocab import Device, Library, Protocol, Status

# What a cell costs beside its windows (process, model, tracking), and for compilation: first guesses
# of `estimate_s`, for cells that were never run here.
OVERHEAD_S = 0.5
XLA_COMPILE_S = 5.0
INDUCTOR_COMPILE_S = 30.0


@dataclass(frozen=True)
class Planned:
    """A cell, the name of its record, and why it would be skipped (None: it runs)."""

    cell: Cell
    identity: str
    skip_reason: str | None

    @property
    def record_name(self) -> str:
        """The record's file name, without its ending."""
        return f"{self.cell.id}-{self.identity[:8]}"


@cache
def report_on(device: Device) -> DeviceReport:
    """What this machine has of `device`; looked up once per process."""
    return look(device)


def identity(cell: Cell, data: Data, fingerprint: dict[str, Any]) -> str:
    """The digest of everything that the cell's numbers depend on.

    Raises:
        UserError: the user's own network is nowhere to be found.
    """
    parts = {"settings": cell.settings(), "data": data.digest, "environment": fingerprint}
    if cell.model.library == Library.custom:
        parts["network"] = source_digest(cell.model.definition)
    return digest(parts)


def repeated(cells: Iterable[Cell], num: int) -> list[Cell]:
    """Each cell `num` times over, its `repeat` counted on: as many fresh processes of the same settings."""
    return [replace(cell, repeat=cell.repeat + more) for cell in cells for more in range(num)]


def plan(cells: Iterable[Cell], data: Data, fingerprint: dict[str, Any]) -> list[Planned]:
    """The cells in the order in which they run: repeats apart from each other, so that drift hits all alike.

    Equal cells are planned once.
    """
    unique = {cell.id: cell for cell in cells}
    return [
        Planned(cell, identity(cell, data, fingerprint), why_not(cell, report_on(cell.device)))
        for cell in sorted(unique.values(), key=lambda cell: cell.repeat)
    ]


def write_plan(planned: Sequence[Planned], options: SweepOptions, folder: Path) -> None:
    """Writes `folder`/plan.json: the cells that this sweep wants, whether they have a record or not."""
    cells = [
        {
            "cell_id": item.cell.id,
            "label": item.cell.label,
            "record": item.record_name,
            "cell": item.cell.to_json(),
        }
        for item in planned
    ]
    head = {"schema_version": SCHEMA_VERSION, "suite": options.suite, "title": options.title, "study": options.study}
    write_json(folder / "plan.json", {**head, "profile": options.profile, "cells": cells})


def known_walls(folders: Iterable[Path]) -> dict[str, float]:
    """Seconds that cells took, by cell id, from the records under `folders`.

    Skipped ones took none, and are passed over as unreadable ones are.
    """
    walls = {}
    for folder in folders:
        for path in sorted(folder.rglob(FILES)):
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
