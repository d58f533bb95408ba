"""The record: everything that is kept of one cell, raw samples included. Each is one JSON file."""

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
from accelbench.schema.text import MAX_REASON, beginning, clean_json, ending, one_line
from accelbench.schema.upgrade import SCHEMA_VERSION, OtherSchemaError, check_readable, upgrade_cell
from accelbench.schema.vocab import Status

# The entries of `Record.environment` that were measured of the devices; all others are the machine's fingerprint and
# part of an identity.
DEVICE_MEASUREMENTS = ("ceilings", "probe_code", "idle_w")

Value = str | float | int | bool | None
Row = dict[str, Value]  # a record's published numbers, by column; see `judging.row.summarise`


@dataclass(frozen=True, kw_only=True)
class Record:
    """The outcome of one cell.

    Attributes:
        identity: digest of the settings, the data, the machine, the versions and the measuring code. A sweep reuses
            a record only for a cell of the same identity.
        started_at: UTC, ISO 8601.
        wall_s: seconds from the request to the outcome, process start included.
        environment: the fingerprint of machine, versions, measuring code and git, and `DEVICE_MEASUREMENTS`.
        reason: why the status is not `ok`, in one line; None if it is.
        error: the end of the traceback, of the process's output, or of the calls it hung in; None if the cell is ok.
        user_error: whether the cell failed because of a mistake in the user's request, which `reason` explains.
        data, measurement, system: None if the cell did not get that far.
        sweep_id: the sweep that measured the cell (its start and suite); None for a cell run alone.
        schema_version: the schema of the release that wrote the record.
        cell_id: the cell's id in that release, if its schema is older than this one's; None: `cell.id`.
        label: the cell's name for people, which tells it apart from the others of its sweep; by default `cell.label`.
    """

    cell: Cell
    identity: str
    status: Status
    started_at: str
    wall_s: float
    environment: Mapping[str, Any]
    reason: str | None = None
    error: str | None = None
    user_error: bool = False
    data: Data | None = None
    measurement: Measurement | None = None
    system: SystemSeries | None = None
    sweep_id: str | None = None
    schema_version: int = SCHEMA_VERSION
    cell_id: str | None = None
    label: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.cell.label)

    @property
    def name(self) -> str:
        """The file's name without its ending: `<cell_id>-<identity8>`."""
        return f"{self.cell_id or self.cell.id}-{self.identity[:8]}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, with the cell's id and label for people and scripts."""
        values = dataclasses.asdict(self)
        del values["cell_id"], values["label"]
        return {"cell_id": self.cell_id or self.cell.id, "label": self.label, **values}


# What every record of the present schema has.
FIELDS = frozenset(field.name for field in dataclasses.fields(Record))


def from_values(values: Mapping[str, Any]) -> Record:
    """The record that `Record.to_json` gave, here or in an older release, its texts made safe to show.

    Raises:
        OtherSchemaError: the record is of a schema that this release cannot read.
        TypeError, ValueError, KeyError: `values` are no record.
    """
    version: Any = values["schema_version"]
    check_readable(version)
    if version == SCHEMA_VERSION and (missing := FIELDS - set(values)):
        raise KeyError(*sorted(missing))
    loaded = _clean(values)
    cell_id = loaded.pop("cell_id")
    if version != SCHEMA_VERSION or loaded["cell"] != values["cell"]:
        loaded["cell_id"] = cell_id
    return load(Record, loaded | {"cell": upgrade_cell(loaded["cell"], version)})


def _clean(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a record that anyone may have written, with texts that are safe to show and not too long."""
    shortened = dict(values)
    if isinstance(reason := values.get("reason"), str):
        shortened["reason"] = beginning(one_line(reason), MAX_REASON)
    if isinstance(error := values.get("error"), str):
        shortened["error"] = ending(error)
    cleaned: dict[str, Any] = clean_json(shortened)
    return cleaned


def write(record: Record, folder: Path) -> Path:
    """Writes `record` into `folder` atomically and returns its path."""
    path = folder / f"{record.name}.json"
    write_json(path, record.to_json())
    return path


def read(path: Path) -> Record:
    """Reads one record.

    Raises:
        OtherSchemaError: the record is of a schema that this release cannot read.
        UserError: the file is not a readable record.
    """
    try:
        return from_values(orjson.loads(path.read_bytes()))  # five times as fast as json
    except OtherSchemaError as error:
        raise OtherSchemaError(error.version, f"{path}: not a readable record (a record of {error})") from error
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
