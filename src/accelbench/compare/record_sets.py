"""What the user names as a side of a comparison -> its records."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any

from accelbench.errors import UserError
from accelbench.judging.row import is_disturbed, steady_rates
from accelbench.project import PLAN, RECORDS
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data
from accelbench.schema.plan_file import read_planned
from accelbench.schema.record import Record, read
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Status

MAX_NAMED = 8  # folders in a message


class Selection(StrEnum):
    """What told a side's records apart from the others of its folder."""

    revision = "revision"
    machine = "machine"


@dataclass(frozen=True, kw_only=True)
class Process:
    """One record, as far as a comparison needs it: ten thousand whole ones would fill the memory.

    Attributes:
        rates: samples/s of its steady blocks or epochs; empty where it did not end well.
        is_disturbed: see `summary.is_disturbed`.
    """

    cell: Cell
    status: Status
    started_at: str
    environment: Mapping[str, Any]
    data: Data | None
    rates: list[float]
    is_disturbed: bool

    @classmethod
    def of(cls, record: Record) -> "Process":
        """The process that left `record`."""
        measured = record.measurement if record.status == Status.ok else None
        return cls(
            cell=record.cell,
            status=record.status,
            started_at=record.started_at,
            environment=record.environment,
            data=record.data,
            rates=steady_rates(measured) if measured else [],
            is_disturbed=is_disturbed(record),
        )


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: as the user wrote it.
        processes: all that were measured, whatever became of them.
        selection: how they were chosen; None where the whole folder is meant.
    """

    name: str
    processes: list[Process]
    selection: Selection | None = None

    def environments(self) -> list[Mapping[str, Any]]:
        """Its processes' environments, each once."""
        return list({canonical_json(process.environment): process.environment for process in self.processes}.values())


def find(name: str, root: Path) -> Side:
    """The side that `name` stands for.

    Args:
        name: a folder of records, a suite under results/, one record's file, or `[FOLDER]@WORD`: the records in a
            folder (without one: results/), earlier ones too, whose git revision begins with WORD, whose branch it
            is, or whose CPU, GPU or TPU has it in its name.
        root: the project's folder.

    Raises:
        UserError: there is nothing of that name, or nothing readable; the message says what there is.
    """
    path, word = name, ""
    if "@" in name and _located(name, root) is None:
        path, _, word = name.rpartition("@")
        path = path or "results"
    found = _located(path, root)
    if found is None:
        there = _folders(root)
        listed = f"There are: {', '.join(there)}." if there else "There are none yet: measure something first."
        raise UserError(f"{path}: no folder of records, suite or record. {listed}")
    if word:
        return _selected(name, word, list(_readable(found)))
    processes = [Process.of(record) for record in ([read(found)] if found.is_file() else _wanted(found))]
    if not processes:
        raise UserError(f"{name}: holds no records")
    return Side(name=name, processes=processes)


def _located(name: str, root: Path) -> Path | None:
    """The file or folder that `name` is: from here, from the project's folder, or as a suite."""
    places = [Path(name), root / name, root / "results" / name] if name else []
    return next((place for place in places if place.exists()), None)


def _folders(root: Path) -> list[str]:
    plans = [path for top in ("results", "runs") for path in sorted((root / top).rglob(PLAN))]
    return [str(path.parent.relative_to(root)) for path in plans][-MAX_NAMED:]


def _wanted(folder: Path) -> Iterator[Record]:
    """The records that the plans in or below `folder` name; all of a folder that has no plan."""
    plans = sorted(folder.rglob(PLAN))
    if plans:
        return chain.from_iterable(read_planned(plan.parent) for plan in plans)
    return (read(file) for file in sorted(folder.rglob(RECORDS)))


def _readable(folder: Path) -> Iterator[Process]:
    """All records in or below `folder`; those of another schema, as earlier releases left them, are passed over."""
    for file in sorted(folder.rglob(RECORDS)):
        with suppress(UserError):
            yield Process.of(read(file))


def _selected(name: str, word: str, processes: list[Process]) -> Side:
    for selection in Selection:
        chosen = [process for process in processes if _matches(process.environment, word.lower(), selection)]
        if chosen:
            return Side(name=name, processes=chosen, selection=selection)
    if not processes:
        raise UserError(f"{name}: that folder holds no records")
    revisions = _each_once(str(process.environment.get("git", {}).get("revision"))[:8] for process in processes)
    machines = _each_once(part for process in processes for part in _machine(process.environment))
    raise UserError(
        f"{name}: no record there is of such a git revision, branch or machine. "
        f"Revisions: {revisions}; machines: {machines}."
    )


def _matches(environment: Mapping[str, Any], word: str, selection: Selection) -> bool:
    if selection == Selection.machine:
        return any(word in part.lower() for part in _machine(environment))
    git = environment.get("git", {})
    return (git.get("revision") or "").startswith(word) or (git.get("branch") or "").lower() == word


def _machine(environment: Mapping[str, Any]) -> list[str]:
    """The names of the chips that it computes with."""
    machine = environment.get("machine", {})
    return [str(machine.get("cpu_name")), *machine.get("gpus", []), *machine.get("tpus", [])]


def _each_once(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))
