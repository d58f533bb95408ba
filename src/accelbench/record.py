"""The record: what happened to one cell, raw samples included, written first and atomically."""

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from accelbench.cell import Cell
from accelbench.errors import UserError
from accelbench.measurement import Measurement
from accelbench.vocab import Status

SCHEMA_VERSION = 5

OF_DEVICES = ("ceilings", "idle_w")  # of an environment: what was measured of the devices, and no part of an identity

Value = str | float | int | bool | None
Row = dict[str, Value]  # a record's published numbers, by column (`summary`)

FILES = f"{'?' * 12}-{'?' * 8}.json"  # the pattern of `Record.name`


@dataclass(frozen=True, kw_only=True)
class SystemSeries:
    """The sampler's series over a cell's life.

    Attributes:
        started_boot_s: when the cell's process started, in seconds since the machine did.
        t_s: seconds since the cell's process started, a value per sample.
        values: name -> a value per sample (None where that sample has none). Names carry their unit:
            `host_memory_mb`, `cpu_utilization_percent`, `gpu_0_memory_mb`, `gpu_0_power_w`, ...
        peak_host_bytes: the kernel's own high-water mark of the cell's process where it could be read, or
            the largest sample of its process tree, whichever is more.
    """

    started_boot_s: float | None = None
    t_s: list[float] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)
    peak_host_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data set that a cell read, from its manifest.

    Attributes:
        digest: of the manifest: changes with any byte of the data.
        source: where it came from, for people.
        stand_in: whether it only stands in for the set it is named after.
    """

    name: str
    digest: str
    source: str
    stand_in: bool


@dataclass(frozen=True, kw_only=True)
class Record:
    """One cell's outcome.

    Attributes:
        identity: digest of the settings, the data, the machine, the versions and the measuring code: a
            record answers for a cell only where these are equal.
        reason: why it is not `ok`, in one line; None where it is.
        error: the traceback's end, the last words of the process, or where it hung; None where it is ok.
        started_at: UTC, ISO 8601.
        wall_s: seconds from asking for the cell to its outcome, process start included.
        environment: the fingerprint of machine, versions, measuring code and git.
        sweep_id: which sweep measured it (its start and suite); None for a cell run on its own.
    """

    cell: Cell
    identity: str
    status: Status
    started_at: str
    wall_s: float
    environment: Mapping[str, Any]
    reason: str | None = None
    error: str | None = None
    data: Data | None = None
    measurement: Measurement | None = None
    system: SystemSeries | None = None
    sweep_id: str | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def name(self) -> str:
        """The file's name without its ending: `<cell_id>-<identity8>`."""
        return f"{self.cell.id}-{self.identity[:8]}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the cell's id and label added for people and scripts."""
        return {"cell_id": self.cell.id, "label": self.cell.label, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Record":
        """The record that `to_json` wrote.

        Raises:
            UserError: the record is of another schema.
        """
        if values.get("schema_version") != SCHEMA_VERSION:
            found = values.get("schema_version")
            raise UserError(f"a record of schema {found}; this accelbench reads schema {SCHEMA_VERSION}")
        measurement, data, system = values["measurement"], values["data"], values["system"]
        return cls(
            cell=Cell.from_json(values["cell"]),
            identity=values["identity"],
            status=Status(values["status"]),
            started_at=values["started_at"],
            wall_s=values["wall_s"],
            environment=values["environment"],
            sweep_id=values["sweep_id"],
            reason=values["reason"],
            error=values["error"],
            data=Data(**data) if data else None,
            measurement=Measurement.from_json(measurement) if measurement else None,
            system=SystemSeries(**system) if system else None,
        )


def write_json(path: Path, value: object) -> None:
    """Writes JSON so that `path` holds either the old text or the whole new one, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", suffix=".tmp", delete=False) as file:
        try:
            json.dump(value, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def write(record: Record, folder: Path) -> Path:
    """Writes `record` into `folder` atomically and returns its path."""
    path = folder / f"{record.name}.json"
    write_json(path, record.to_json())
    return path


def read(path: Path) -> Record:
    """Reads one record.

    Raises:
        UserError: the file is no record.
    """
    try:
        return Record.from_json(orjson.loads(path.read_bytes()))  # five times as fast as json
    except (ValueError, KeyError, TypeError, AttributeError, UserError) as error:
        raise UserError(f"{path}: not a readable record ({error})") from error


def read_planned(folder: Path) -> Iterator[Record]:
    """The records that `folder/plan.json` names, in its order; those not there yet are passed over.

    Raises:
        UserError: a file is no record, or there is no plan.
    """
    plan = folder / "plan.json"
    try:
        names = [entry["record"] for entry in json.loads(plan.read_text())["cells"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{plan}: not a readable plan ({error}); run the sweep first") from error
    for name in names:
        path = folder / f"{name}.json"
        if path.exists():
            yield read(path)
