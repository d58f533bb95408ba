"""Reads the records that the user names as A or B of a comparison."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accelbench.errors import UserError
from accelbench.judging.verdict import DISTURBED, Word, verdict_on
from accelbench.judging.warnings import was_beside_others
from accelbench.presentation import counted
from accelbench.project import PLAN, RECORDS, RESULTS, workplace
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Data
from accelbench.schema.plan_file import read_planned, sweep_folders
from accelbench.schema.record import CODE, PLACE, Record, hardware, listed, read, read_all
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Status


@dataclass(frozen=True, kw_only=True)
class ComparedProcess:
    """The part of a record that a comparison needs. Ten thousand whole records would fill the memory."""

    cell: Cell
    outcome: Word  # the status, or `disturbed`
    started_at: str
    environment: Mapping[str, Any]
    data: Data | None
    rates: list[float]  # samples/s of the steady blocks or epochs; empty if the cell is not ok, or was disturbed
    was_beside_others: bool  # see `judging.warnings`
    reason: str | None = None  # why the outcome is not `ok`

    @property
    def disturbed(self) -> str | None:
        """What disturbed an ok cell, so that its rates do not count; else None."""
        return self.reason if self.outcome == DISTURBED else None

    @classmethod
    def of(cls, record: Record) -> "ComparedProcess":
        """The process that wrote `record`."""
        outcome, reason = verdict_on(record)
        measured = record.measurement if outcome == Status.ok else None
        return cls(
            cell=record.cell,
            outcome=outcome,
            started_at=record.started_at,
            environment=record.environment,
            data=record.data,
            rates=measured.steady_rates if measured else [],
            was_beside_others=was_beside_others(record),
            reason=reason,
        )


@dataclass(frozen=True, kw_only=True)
class RecordSet:
    """The records of A or of B."""

    name: str  # name, as the user wrote it
    processes: list[ComparedProcess]  # one for each record, of any status
    notes: Sequence[str] = ()  # a line for each record and plan that could not be read

    def environments(self) -> list[Mapping[str, Any]]:
        """Returns each environment of the processes once. Its `code` is {engine: digest of the engine's code}."""
        environments = (
            {**process.environment, "code": {process.cell.engine.value: process.environment.get("code")}}
            for process in self.processes
        )
        return list({canonical_json(environment): environment for environment in environments}.values())


def find(name: str) -> RecordSet:
    """Returns the records that `name` means in the project, or in the current folder outside of a project.

    A name is a folder of records, a suite under results/, the file of one record, or `[FOLDER]@WORD`.

    `FOLDER@WORD` selects records in FOLDER, including records of earlier sweeps. If FOLDER is left out, it is
    `Workplace.records`. A record is selected if its git revision begins with WORD, or if its branch is WORD.

    Raises UserError: nothing has this name, or no record is readable.
    """
    path, word = name, ""
    where = workplace()
    if "@" in name and _located(name, where.root) is None:
        path, _, word = name.rpartition("@")
    place = _located(path or where.records, where.root)
    if place is None:
        raise UserError(
            f"{path}: not a folder of records, a suite or a record: name one, or use `compare --run` to measure cells"
        )
    if place.is_file() and not word:
        return RecordSet(name=name, processes=[ComparedProcess.of(read(place))])
    notes: list[str] = []
    readable = read_all(list(_records_below(place, notes, planned=not word)))
    processes = list(map(ComparedProcess.of, readable))
    notes += listed(readable.problems())
    if not processes:
        raise UserError("\n  ".join([f"{name}: holds no {'readable ' if notes else ''}records", *notes]))
    states = [process.environment.get("git", {}) for process in processes]
    if word:
        processes = [process for process, git in zip(processes, states, strict=True) if _is_at(git, word.lower())]
    if not processes:
        revisions = sorted({str(git.get("revision"))[:8] for git in states})
        problem = f"{name}: no record has this git revision or branch. Revisions: {', '.join(revisions)}."
        raise UserError("\n  ".join([problem, *notes]))
    return RecordSet(name=name, processes=newest(processes, notes), notes=notes)


def newest(processes: Iterable[ComparedProcess], notes: list[str]) -> list[ComparedProcess]:
    """Returns the processes except those with older code, weights, data or packages.

    A process is kept if all of these are the same as in the last process of its cell on its machine. `notes` gets a
    line with the number of processes that are left out.
    """
    every = list(processes)
    last = {_of_cell(process): _ran_with(process) for process in sorted(every, key=lambda process: process.started_at)}
    kept = [process for process in every if _ran_with(process) == last[_of_cell(process)]]
    if num := len(every) - len(kept):
        notes.append(f"{counted(num, 'process')} left out because of older code, weights, data or packages")
    return kept


def _of_cell(process: ComparedProcess) -> str:
    return f"{replace(process.cell, repeat=0, seed=0)} {hardware(process.environment)}"


def _ran_with(process: ComparedProcess) -> list[object]:
    return [process.data and process.data.digest, *map(process.environment.get, (*PLACE, *CODE))]


def _located(name: str, root: Path) -> Path | None:
    """Returns the path of `name` in the current folder, else in the project's folder, else in results/, else None."""
    places = [Path(name), root / name, root / RESULTS / name] if name else []
    return next((place for place in places if place.exists()), None)


def _records_below(top: Path, notes: list[str], *, planned: bool) -> Iterator[Path]:
    """Yields the files of records in `top` and in the folders below it.

    If `planned` is true and a folder has a readable plan, only the records in this plan are yielded. `notes` gets a
    line for each plan that can't be read.
    """
    for folder in sweep_folders(top):
        if planned and os.path.lexists(folder / PLAN):
            try:
                yield from read_planned(folder).paths
                continue
            except UserError as error:
                notes.append(f"{error}; all records in its folder are compared")
        yield from sorted(folder.glob(RECORDS))


def _is_at(git: Mapping[str, Any], word: str) -> bool:
    return (git.get("revision") or "").startswith(word) or (git.get("branch") or "").lower() == word
