"""plan.json: the cells of a sweep, whether they have a record yet or not."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from accelbench.errors import UserError
from accelbench.project import PLAN
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record, read
from accelbench.schema.serialize import load, write_json
from accelbench.schema.upgrade import SCHEMA_VERSION, check_readable, upgrade_cell


@dataclass(frozen=True)
class WantedCell:
    """A planned cell.

    Attributes:
        record_name: the name of its record's file without ending: `<cell_id>-<identity8>`.
        label: tells the cell apart from the others of its folder; by default `cell.label`.
    """

    cell: Cell
    record_name: str
    label: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.cell.label)


@dataclass(frozen=True, kw_only=True)
class PlanFile:
    """The contents of a plan.json.

    Attributes:
        suite, title, study, profile: see `settings.config.SweepOptions`.
        cells: in the order of the sweep.
    """

    suite: str
    title: str
    study: str | None
    profile: str | None
    cells: list[WantedCell]


def write_plan(plan: PlanFile, folder: Path) -> None:
    """Writes `folder`/plan.json."""
    cells = [
        {
            "cell_id": wanted.cell.id,
            "label": wanted.label,
            "record": wanted.record_name,
            "cell": wanted.cell.to_json(),
        }
        for wanted in plan.cells
    ]
    head = {"schema_version": SCHEMA_VERSION, "suite": plan.suite, "title": plan.title, "study": plan.study}
    write_json(folder / PLAN, {**head, "profile": plan.profile, "cells": cells})


def read_plan(folder: Path) -> PlanFile:
    """Reads `folder`/plan.json.

    Raises:
        UserError: the file is missing or not readable.
    """
    path = folder / PLAN
    try:
        values = json.loads(path.read_text())
        version = values["schema_version"]
        check_readable(version)
        return PlanFile(
            suite=values["suite"],
            title=values["title"],
            study=values["study"],
            profile=values["profile"],
            cells=[
                WantedCell(load(Cell, upgrade_cell(entry["cell"], version)), entry["record"], entry["label"])
                for entry in values["cells"]
            ],
        )
    except FileNotFoundError as error:
        raise UserError(f"{path} is missing; run the sweep first") from error
    except (OSError, ValueError, KeyError, TypeError, UserError) as error:
        raise UserError(f"{path}: not a readable plan ({error}); run the sweep again") from error


def read_planned(folder: Path) -> Iterator[Record]:
    """The records that `folder`/plan.json names, in its order; cells without a record yet are left out.

    Raises:
        UserError: a record or the plan is not readable, or there is no plan.
    """
    return planned_records(read_plan(folder), folder)


def planned_records(plan: PlanFile, folder: Path) -> Iterator[Record]:
    """The records in `folder` of the plan's cells, in their order; cells without a record yet are left out.

    Raises:
        UserError: a record is not readable.
    """
    for wanted in plan.cells:
        path = folder / f"{wanted.record_name}.json"
        if path.exists():
            yield read(path)
