"""A record is a JSON file with everything that accelbench stores about one cell, including the raw samples."""

import contextlib
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from accelbench.errors import REFUSED, RefusedError, UserError, writing_errors
from accelbench.project import shown
from accelbench.schema.cell import Cell, Status, id_of
from accelbench.schema.measurement import Data, Ended, Environment
from accelbench.schema.serialize import (
    Seconds,
    canonical_json,
    load,
    plain,
    read_json,
    refuse_unknown,
    safe,
    write_json,
)

SCHEMA_VERSION = 8
# Errors when a file is read that is missing or has other contents than expected.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UserError)
# The entries of `Record.environment` that are measurements of the devices, or describe accelbench's own environment.
# All others are the machine's fingerprint, and part of an identity.
DEVICE_MEASUREMENTS = ("ceilings", "probe_code", "idle_w", "busy", "home", "tracking")

# Entry of the environment, and its value if no tracker gets the record.
TRACKING, UNTRACKED = "tracking", "none"

# Entries of an environment. Records with equal `PLACE` are from one machine with equal software. Records with equal
# `CODE` measured equal code.
PLACE = ("machine", "versions", "variables")
CODE = ("code", "files")

RecordName = Annotated[str, Meta(pattern="^[0-9a-f]{12}-[0-9a-f]{8}$")]  # `Record.name`
MAX_NAMED = 5  # unreadable files that a message names

Value = str | float | int | bool | None
Row = dict[str, Any]  # column -> published number (`Value`) of a record; see `judging.row.summarise`


def check_readable(version: object) -> None:
    """Raises ValueError if this release can't read records and plans of the schema `version`."""
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"it has schema {reprlib.repr(version)}; this accelbench reads schema {SCHEMA_VERSION}"
        )


@contextlib.contextmanager
def explained(path: Path, what: str, advice: str = "") -> Iterator[None]:
    """A context for code that reads the file `path`. Turns an error of this code into a UserError that names the file.

    If the system refuses to read the file, raises RefusedError. The file may be undamaged.
    """
    try:
        yield
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno in REFUSED:
            raise RefusedError(error, path) from error
        problem = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path}: not a readable {what} ({problem}){advice}") from error


@dataclass(frozen=True, kw_only=True)
class Record(Ended):
    """The outcome of one cell."""

    cell: Cell
    # digest of settings, data, machine, versions and measuring code. A sweep reuses a record of the same identity.
    identity: Annotated[str, Meta(pattern="^[0-9a-f]{8,64}$")]
    started_at: str  # UTC, ISO 8601
    wall_s: Seconds  # seconds from the request to the outcome, start of the process included
    # fingerprint of machine, versions and measuring code; digests of files; git; measurements of the devices
    environment: Annotated[Mapping[str, Any], Environment]
    data: Data | None = None  # None if the cell ended before it read data
    sweep_id: str | None = None  # start and suite of the sweep that measured the cell; None without a sweep
    of_search: bool = False  # whether a search of rates measured it; its speed only chose the first rate
    schema_version: int = SCHEMA_VERSION  # the schema of the release that wrote the record
    label: str = ""  # name of the cell, unique in its sweep; by default `cell.label`

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.cell.label)

    @property
    def name(self) -> str:
        """The file's name without its suffix: `<cell_id>-<identity8>`."""
        return f"{self.cell.id}-{self.identity[:8]}"

    def was_cut(self, timeout_s: float) -> bool:
        """Returns whether the cell was ended early by its time limit, and this limit is below `timeout_s`."""
        is_partial = self.measurement is not None and self.measurement.is_partial
        return (is_partial or self.status == Status.timeout) and self.cell.timeout_s < timeout_s

    def to_json(self) -> dict[str, Any]:
        """Converts the record to plain JSON values, with the cell's id and label."""
        values = plain(self)
        return {"cell_id": self.cell.id, "label": self.label, "cell": values["cell"], **values}


def from_values(values: Mapping[str, Any]) -> Record:
    """Makes a record from `values`, which `Record.to_json` has made. The record's texts are safe to show.

    Raises TypeError, ValueError, KeyError: `values` are no record of this schema, or they contradict each other. The
    message names the field.
    """
    check_readable(values["schema_version"])
    parts = safe({name: part for name, part in values.items() if name != "cell_id"})
    load(Environment, parts["environment"], "environment")
    record = load(Record, parts)
    refuse_unknown(parts["cell"], plain(record.cell), "cell")  # without the setting it would be another cell
    vars(record.cell)["id"] = id_of(values["cell"])
    if values["cell_id"] != record.cell.id:
        raise ValueError("cell_id: should be the digest of the cell's settings")
    if datetime.fromisoformat(record.started_at).tzinfo is None:
        raise ValueError(f"started_at: should have a time zone, not {record.started_at!r}")
    measured = record.measurement
    if record.status == Status.ok and (
        measured is None or not (measured.blocks or measured.epochs or measured.serving or measured.target)
    ):
        raise ValueError("measurement: an ok record should have blocks, epochs, requests or a target")
    return record


def write(record: Record, folder: Path) -> Path:
    """Writes `record` into `folder` atomically and returns its path. Raises WriteError: the file can't be written."""
    path = folder / f"{record.name}.json"
    with writing_errors(shown(folder)):
        write_json(path, record.to_json())
    return path


def read(path: Path) -> Record:
    """Reads one record. Raises UserError: the file is not a readable record."""
    with explained(path, "record"):
        return from_values(read_json(path))


@dataclass(frozen=True)
class Readable:
    """The readable records of some files. Each iteration reads one file after another, and skips missing files."""

    paths: Iterable[Path]
    # file -> why it was not readable. Complete after an iteration.
    refused: dict[Path, UserError] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Record]:
        return (record for _, record in self.by_path())

    def by_path(self) -> Iterator[tuple[Path, Record]]:
        """Yields each readable record with its file."""
        self.refused.clear()
        for path in self.paths:
            try:
                record = read(path)
                if record.name != path.stem:
                    raise UserError(f"{path}: not a readable record (it is a copy of {record.name})")
            except UserError as error:
                if os.path.lexists(path):
                    self.refused[path] = error
                continue
            yield path, record

    def problems(self, name: Callable[[Path], str] = shown) -> list[str]:
        """A line for each unreadable file: its name, the reason, and what the user can do."""
        # If the system refused to read a file, the advice is left out: the file may be whole.
        advice = "; delete it and run the sweep again"
        return [
            f"{name(path)}: {reason}{'' if isinstance(self.refused[path], RefusedError) else advice}"
            for path, reason in self.reasons.items()
        ]

    @property
    def reasons(self) -> dict[Path, str]:
        """File -> why it was not readable."""
        return {path: str(error).removeprefix(f"{path}: ") for path, error in self.refused.items()}


read_all = Readable  # reads the readable records of some files; `refused` has the other files, with reasons


def hardware(environment: Mapping[str, Any]) -> str:
    """Returns a key that is equal for all records of one machine, even after an update of Python or of the kernel."""
    machine = environment.get("machine", {})
    return canonical_json([machine.get(part) for part in ("cpu_name", "num_cores", "gpus", "tpus")])


def device_names(environment: Mapping[str, Any]) -> list[str]:
    """Returns the names of the machine's CPU, GPUs and TPUs, the CPU first."""
    machine = environment.get("machine", {})
    return [str(machine.get("cpu_name")), *machine.get("gpus", []), *machine.get("tpus", [])]


def node_of(environment: Mapping[str, Any]) -> str | None:
    """Returns the name of the cluster node that a cell ran on. Returns None for a single machine."""
    name: str | None = environment.get("node", {}).get("name")
    return name


def with_bounds(column: str, value: float | None, bounds: tuple[float | None, float | None] | None) -> Row:
    """Returns the columns of a value and of its lower and upper bound, such as `x`, `x_low` and `x_high`."""
    low, high = bounds or (None, None)
    return {column: value, f"{column}_low": low, f"{column}_high": high}


def number_of(row: Row, column: str) -> float | None:
    """Returns the number in a column. Returns None if the value is unknown or not a number."""
    value = row[column]
    return float(value) if isinstance(value, int | float) else None


def listed(refused: Sequence[str]) -> list[str]:
    """Returns the first texts of `refused`, and a line with the number of further texts."""
    more = len(refused) - MAX_NAMED
    return [*refused[:MAX_NAMED], *([f"and {more} more"] if more > 0 else [])]
