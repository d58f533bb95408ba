"""The record: what happened to one cell, raw samples included, written first and atomically."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data, SystemSeries
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import load, write_json
from accelbench.schema.vocab import Status

SCHEMA_VERSION = 5


DEVICE_MEASUREMENTS = (
    "ceilings",
    "idle_w",
)  # of an environment: what was measured of the devices, and no part of an identity


Value = str | float | int | bool | None


Row = dict[str, Value]  # a record's published numbers, by column (`summary`)


class OtherSchemaError(UserError):
    """A record of a schema that this release cannot read.

    Attributes:
        version: the schema version that the file names; None if it names none.
    """

    def __init__(self, version: object, path: Path | None = None) -> None:
        text = f"a record of schema {version}; this accelbench reads schema {SCHEMA_VERSION}"
        super().__init__(text if path is None else f"{path}: not a readable record ({text})")
        self.version = version


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


def from_json(values: Mapping[str, Any]) -> Record:
    """The record that `Record.to_json` gave, here or in an older release.

    Raises:
        OtherSchemaError: the record is of a schema that this release cannot read.
        TypeError, ValueError, KeyError: `values` are no record.
    """
    if values.get("schema_version") != SCHEMA_VERSION:
        raise OtherSchemaError(values.get("schema_version"))
    values = dict(values)
    del values["cell_id"], values["label"]
    return load(Record, values)


def write(record: Record, folder: Path) -> Path:
    """Writes `record` into `folder` atomically and returns its path."""
    path = folder / f"{record.name}.json"
    write_json(path, record.to_json())
    return path


def read(path: Path) -> Record:
    """Reads one record.

    Raises:
        OtherSchemaError: the record is of a schema that this release cannot read.
        UserError: the file is no record.
    """
    try:
        return from_json(orjson.loads(path.read_bytes()))  # five times as fast as json
    except OtherSchemaError as error:
        raise OtherSchemaError(error.version, path) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a readable record ({error})") from error


@dataclass(frozen=True)
class Readable:
    """The readable records of some files, read one at a time while iterating.

    Attributes:
        refused: reason -> number of files that could not be read. Complete once the iteration has ended.
    """

    paths: Iterable[Path]
    refused: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[Record]:
        self.refused.clear()
        for path in self.paths:
            try:
                record = read(path)
            except OtherSchemaError as error:
                self.refused[f"of schema {error.version}"] += 1
            except UserError:
                self.refused["without a readable record"] += 1
            else:
                yield record

    @property
    def refused_text(self) -> str:
        """What was not read, such as `12 of schema 2, 1 without a readable record`; empty if every file was read."""
        return ", ".join(f"{num} {reason}" for reason, num in self.refused.most_common())


def read_all(paths: Iterable[Path]) -> Readable:
    """Reads what can be read of `paths` and counts, by reason, what cannot."""
    return Readable(paths)
