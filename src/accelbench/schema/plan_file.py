"""The files plan.json and race.json.

plan.json lists the cells of a sweep, whether or not they were measured. race.json has the answers of a search for
the best cell.
"""

import fnmatch
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accelbench.errors import RefusedError
from accelbench.project import PLAN, RACE, RECORDS
from accelbench.schema import record as records
from accelbench.schema.cell import Cell, argument_text
from accelbench.schema.secrets import masked
from accelbench.schema.serialize import flat, load, plain, read_json, refuse_unknown, safe, write_json
from accelbench.schema.text import one_line

AGAIN = "; run the sweep again"


@dataclass(frozen=True)
class WantedCell:
    """A planned cell."""

    cell: Cell
    record_name: records.RecordName  # name of its record's file without suffix: `<cell_id>-<identity8>`
    label: str  # name of the cell, unique in its folder
    planned_in: str = ""  # for a training to a target: the sweep that first planned it
    words: str = ""  # the words of a command line that asks for the cell; empty if unknown


@dataclass(frozen=True, kw_only=True)
class PlanFile:
    """The contents of a plan.json."""

    schema_version: int = records.SCHEMA_VERSION  # schema of the release that wrote the plan
    suite: str  # see `settings.config.SweepOptions`
    title: str  # see `settings.config.SweepOptions`
    study: str | None  # see `settings.config.SweepOptions`
    profile: str | None  # see `settings.config.SweepOptions`
    cells: list[WantedCell]  # in the order of the sweep


def write_plan(plan: PlanFile, folder: Path) -> None:
    """Writes `folder`/plan.json."""
    entries = []
    for wanted in plan.cells:
        entry = {
            "cell_id": wanted.cell.id,
            "label": wanted.label,
            "record": wanted.record_name,
            "cell": wanted.cell,
        }
        entries.append({**entry, "planned_in": wanted.planned_in, "words": masked(wanted.words)})
    write_json(folder / PLAN, vars(plan) | {"cells": entries})


def read_plan(folder: Path) -> PlanFile:
    """Reads `folder`/plan.json.

    Raises UserError: the file is missing, or is no plan. Raises RefusedError: the system can't read the file now.
    """
    path = folder / PLAN
    with records.explained(path, "plan", AGAIN):
        values = read_json(path)
        records.check_readable(values["schema_version"])
        values = safe(values)
        for entry in values["cells"]:
            entry["record_name"] = entry.pop("record")
        plan = load(PlanFile, values)
        for entry, wanted in zip(values["cells"], plan.cells, strict=True):
            refuse_unknown(entry["cell"], plain(wanted.cell), f"{wanted.record_name}.cell")
            vars(wanted.cell)["id"] = str(entry["cell_id"])
        return plan


def read_planned(folder: Path) -> records.Readable:
    """Returns the readable records that `folder`/plan.json names, in its order. Raises the errors of `read_plan`."""
    return records.read_all([folder / f"{wanted.record_name}.json" for wanted in read_plan(folder).cells])


def plan_of_records(folder: Path) -> PlanFile:
    """Makes a plan of all readable records of `folder`, in the order in which they were measured.

    The study and the profile of this plan are unknown.
    """
    wanted_at = {
        (record.started_at, record.name): WantedCell(record.cell, record.name, record.label)
        for record in records.read_all(folder.glob(RECORDS))
    }
    cells = [wanted_at[key] for key in sorted(wanted_at)]
    suites = dict.fromkeys(wanted.cell.suite for wanted in cells)
    return PlanFile(
        suite=", ".join(suites), title=folder.resolve().name, study=None, profile=None, cells=cells
    )


def joined(earlier: Sequence[WantedCell], new: Sequence[WantedCell]) -> list[WantedCell]:
    """Returns the cells of `earlier`, then the further cells of `new`. For a cell in both, uses the entry of `new`."""
    return list({wanted.cell.id: wanted for wanted in [*earlier, *new]}.values())


def sweep_folders(top: Path) -> list[Path]:
    """Searches `top` and all folders below it for folders that have a plan or records. Returns them sorted.

    Hidden folders and links to folders are left out. Raises RefusedError: the system refuses to list a folder.
    """
    folders = []

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise RefusedError(error)

    for place, below, files in os.walk(top, onerror=refuse):
        below[:] = [name for name in below if not name.startswith(".")]
        if PLAN in files or fnmatch.filter(files, RECORDS):
            folders.append(Path(place))
    return sorted(folders)


def record_paths(top: Path) -> list[Path]:
    """The record files in `top` and below it."""
    return [path for folder in sweep_folders(top) for path in sorted(folder.glob(RECORDS))]


def labels(cells: Iterable[Cell]) -> dict[str, str]:
    """Maps cell ids to labels. If several cells have the same `Cell.label`, adds the settings in which they differ."""
    groups: dict[str, dict[str, Cell]] = defaultdict(dict)
    for cell in cells:
        groups[cell.label][cell.id] = cell
    names: dict[str, str] = {}
    for label, group in groups.items():
        if len(group) == 1:
            names[next(iter(group))] = one_line(label)
            continue
        settings_of = {cell_id: flat(cell.settings()) for cell_id, cell in group.items()}
        every = dict.fromkeys(name for settings in settings_of.values() for name in settings)
        varied = [
            name for name in every if len({settings.get(name) for settings in settings_of.values()}) > 1
        ]
        for cell_id, settings in settings_of.items():
            words = [_word(name, settings[name]) for name in varied if name in settings]
            names[cell_id] = one_line("-".join([label, *words]))
    return names


def _word(path: str, text: str) -> str:
    # Of all settings that end in `name`, only data.name can differ among cells of one label.
    name = path.removesuffix(".name").rpartition(".")[2]
    return argument_text(name, json.loads(text))


@dataclass(frozen=True, kw_only=True)
class RaceFile:
    """The contents of a race.json."""

    answers: list[str]  # the results in sentences
    # Names of the records of short processes: they measured only a short window
    short: list[records.RecordName] = field(default_factory=list)


def read_race(folder: Path) -> RaceFile | None:
    """Reads `folder`/race.json. Returns None if the file is missing. Raises UserError: the file is not readable."""
    path = folder / RACE
    if not path.exists():
        return None
    with records.explained(path, "search", "; run the search again"):
        return load(RaceFile, safe(read_json(path)))
