"""Merges records of several machines, or of a cluster's nodes."""

import os
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from filecmp import cmp
from pathlib import Path

from accelbench.errors import UserError, writing_errors
from accelbench.project import COMPARISON, PLAN, RACE, RECORDS, REQUESTS, SAFETENSORS, resolved, shown
from accelbench.schema import plan_file
from accelbench.schema.serialize import writing

Part = tuple[Path, str]  # the folder of a sweep, and the name of its source


@dataclass(kw_only=True)
class Merged:
    """The results of a merge."""

    num_new: int = 0  # records that were added
    num_same: int = 0  # records that were there already
    problems: list[str] = field(default_factory=list)  # a line for each file that was not added


def merge(sources: Sequence[str], into: Path) -> Merged:
    """Adds to `into` every record that `into` lacks, in folders with the same names. Overwrites no record.

    Records with the same name have the same cell and code, and ran on the same machine or on equal machines. `sources`
    are folders of records or of sweeps.

    Raises UserError if a source has no records, can't be read, contains `into` or lies in it, or if a plan can't be
    read or written.
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
        merge_into(target, of_target, done)
    return done


def merge_into(target: Path, parts: Sequence[Part], done: Merged) -> None:
    """Adds the records and plans of `parts` to the folder `target`, and counts them in `done`."""
    # The plans are read before any record is added. A plan that can't be read is not overwritten.
    places = [target] if (target / PLAN).exists() else []
    places += [folder for folder, _ in parts]
    plans = []
    for folder in places:
        has_plan = (folder / PLAN).exists()
        plans.append(plan_file.read_plan(folder) if has_plan else plan_file.plan_of_records(folder))
    # Two machines may share a cell.
    cells = {wanted.record_name: wanted for plan in plans for wanted in plan.cells}
    for folder, source in parts:
        for path in sorted(folder.glob(RECORDS)):
            is_new = not (target / path.name).exists()
            if _is_added(path, target, source, done):
                done.num_new += is_new
                done.num_same += not is_new
                for ending in (SAFETENSORS, REQUESTS):
                    _is_added(path.with_suffix(ending), target, source, done)
        for name in (COMPARISON, RACE):  # the order of interleaved processes, and of a search
            _is_added(folder / name, target, source, done)
    if not plans:
        return
    with writing_errors(shown(target)):
        plan_file.write_plan(replace(plans[0], cells=list(cells.values())), target)


def _is_added(path: Path, target: Path, source: str, done: Merged) -> bool:
    """Adds a file, if it exists, to the folder `target`. Is true if `target` has it now, with this content."""
    there = target / path.name
    if not os.path.lexists(path):
        return False
    try:
        if not there.exists():
            with writing(there) as file:
                shutil.copyfile(path, file)
        elif not cmp(path, there, shallow=False):
            done.problems.append(
                f"{shown(there)}: {source} has another measurement of this cell; the one here stays"
            )
            return False
    except OSError as error:
        done.problems.append(f"{shown(there)}: not a copy of {shown(path)} ({error.strerror})")
        return False
    return True
