"""Merges records of several machines, or of a cluster's nodes."""

import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from accelbench.errors import RefusedError, UserError, writing_errors
from accelbench.project import COMPARISON, PLAN, RACE, RECORDS, REQUESTS, SAFETENSORS, resolved, shown
from accelbench.schema import plan_file
from accelbench.schema.plan_file import PlanFile
from accelbench.schema.serialize import loads, writing
from accelbench.schema.text import one_line

Part = tuple[Path, str]  # the folder of a sweep, and the name of its source


@dataclass(kw_only=True)
class Merged:
    """The results of a merge."""

    num_new: int = 0  # records that were added
    num_same: int = 0  # records that were there already
    conflicts: list[str] = field(
        default_factory=list
    )  # a line for each file that differs from a file of its name in `into`, which stays
    problems: list[str] = field(default_factory=list)  # a line for each file and folder that could not be read


def merge(sources: Sequence[str], into: Path) -> Merged:
    """Adds to `into` every record that `into` lacks, in folders with the same names. Overwrites no record.

    Records with the same name have the same cell and code, and ran on the same machine or on equal machines. `sources`
    are folders of records or of sweeps.

    Raises UserError if a source has no records, can't be read, contains `into` or lies in it, or if a plan in `into`
    can't be read or written.
    """
    done = Merged()
    parts: dict[Path, list[Part]] = defaultdict(list)
    for source in sources:
        folder = Path(source)
        if not folder.is_dir():
            raise UserError(f"{source}: no such folder")
        inner, outer = resolved(into), resolved(folder)
        if inner.is_relative_to(outer) or outer.is_relative_to(inner):
            raise UserError(f"{source}: contains the folder of --into, or lies in it: name another folder")
        sweeps = plan_file.sweep_folders(folder)
        if not sweeps:
            raise UserError(f"{source}: holds no records and no {PLAN}")
        for sweep in sweeps:
            name = sweep.relative_to(folder) if sweep != folder else outer.name
            parts[into / name].append((sweep, source))
    for target, of_target in parts.items():  # folder by folder, so that only one plan is in memory
        with writing_errors(shown(target)):
            merge_into(target, of_target, done)
    return done


def merge_into(target: Path, parts: Sequence[Part], done: Merged) -> None:
    """Adds the records and plans of `parts` to the folder `target`, and counts them in `done`."""
    # This comes before any record is added. A plan that can't be read is not overwritten. If a folder has no plan, its
    # records are the plan.
    plan = plan_file.read_plan(target) if (target / PLAN).exists() else None
    cells = {wanted.record_name: wanted for wanted in plan.cells} if plan else {}
    for folder, _ in parts:
        theirs = _plan_of_source(folder, done)
        plan = plan or theirs
        cells |= {wanted.record_name: wanted for wanted in theirs.cells}  # two machines may share a cell
    target.mkdir(parents=True, exist_ok=True)
    for folder, source in parts:
        for path in sorted(folder.glob(RECORDS)):
            if _merge_file(path, target, source, done):
                for ending in (SAFETENSORS, REQUESTS):
                    _copy(path.with_suffix(ending), target)
        for name in (COMPARISON, RACE):  # the order of interleaved processes, and of a search
            if (folder / name).exists():
                _merge_file(folder / name, target, source, done)
    if plan is not None:
        plan_file.write_plan(replace(plan, cells=list(cells.values())), target)


def _plan_of_source(folder: Path, done: Merged) -> PlanFile:
    if (folder / PLAN).exists():
        try:
            return plan_file.read_plan(folder)
        except RefusedError:
            raise
        except UserError as error:
            done.problems.append(f"{one_line(str(error))}; so every record in this folder counts as planned")
    return plan_file.plan_of_records(folder)


def _merge_file(path: Path, target: Path, source: str, done: Merged) -> bool:
    """Adds a JSON file to the folder `target`. Returns whether `target` has it now, with this content."""
    there = target / path.name
    is_record = path.name not in (COMPARISON, RACE)
    try:
        content = path.read_bytes()
        loads(content)
        present = there.read_bytes() if there.exists() else None
    except (OSError, UserError, ValueError) as error:
        done.problems.append(f"{path.name} of {source}: not readable ({one_line(str(error))})")
        return False
    if present is None:
        with writing(there) as file:
            file.write_bytes(content)
        done.num_new += is_record
    elif present == content:
        done.num_same += is_record
    else:
        which = "another measurement of this cell" if is_record else "another file"
        done.conflicts.append(f"{shown(there)}: {source} has {which}; the one here stays")
        return False
    return True


def _copy(path: Path, target: Path) -> None:
    """Copies a file that lies beside a record, if it exists and `target` lacks it."""
    if path.is_file() and not (target / path.name).exists():
        with path.open("rb") as file, writing(target / path.name) as copy, copy.open("wb") as written:
            shutil.copyfileobj(file, written)
