"""Sentences about the records of a folder that a report does not show."""

import os
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from accelbench.errors import UserError
from accelbench.presentation import counted
from accelbench.project import PLAN, RECORDS
from accelbench.schema.race_file import RaceFile
from accelbench.schema.record import read_all

MAX_NAMED = 3  # records in a note


def of_disturbed(reasons: Sequence[str | None], place: str) -> Iterator[str]:
    """How many cells were disturbed, and by what.

    Args:
        reasons: what disturbed each cell; None if nothing did.
        place: the name of their folder for people.
    """
    if known := [reason for reason in reasons if reason]:
        cells = f"{len(known):,} of {len(reasons):,} cells in {place} {'were' if len(known) > 1 else 'was'} disturbed"
        yield f"{cells} ({known[0]}): no answer counts such a cell. The same sweep with retry=failed measures it again."


def of_plan(
    names: Set[str], race: RaceFile | None, folder: Path, unread: UserError | None, place: str
) -> Iterator[str]:
    """What a reader should know of a folder's plan and of the records that it does not name.

    Args:
        names: of the records that the folder's plan names, or of all.
        race: of the search whose records these are; None for a sweep.
        folder: where they are.
        unread: why the folder's own plan can't be read; None if it can.
        place: the folder's name for people.
    """
    short = race.short if race else set()
    if short:
        yield (
            f"{len(short):,} records in {place} are of short windows of a search: too short to publish, "
            "and only the table of the search counts them."
        )
    if unread is not None:
        is_missing = not os.path.lexists(folder / PLAN)
        yield (
            (f"{place} has no {PLAN}" if is_missing else str(unread).replace(str(folder), place))
            + ": the cells of all its records are shown, in the order in which they were measured. "
            "Which study they belong to, and which cells were planned but not measured, is unknown."
        )
    elif others := sorted({path.stem for path in folder.glob(RECORDS)} - names - short):
        what = f"{len(others):,} records" if len(others) > 1 else "1 record"
        are = "are" if len(others) > 1 else "is"
        shown = ", ".join(f"{name}.json" for name in others[:MAX_NAMED])
        more = f" and {len(others) - MAX_NAMED:,} more" if len(others) > MAX_NAMED else ""
        why = "of cells that are no longer wanted, or of other code, versions or machines"
        yield f"{what} in {place} {are} not in its plan, and {are} not shown: {shown}{more} ({why})."


def nothing_is_readable(folder: Path, of_plan: UserError) -> UserError:
    """Why the folder has no cells: the error of its plan, and of its records the number and the first one's error."""
    readable = read_all(sorted(folder.glob(RECORDS)))
    num, problems = len(list(readable)), readable.problems()
    if num or not problems:  # without records; or those that are readable are short ones of a search
        return of_plan
    first = f"{counted(len(problems), 'record')}, none of which can be read; the first: {problems[0]}"
    return UserError(f"{of_plan}; {first}" if os.path.lexists(folder / PLAN) else f"{folder}: {first}")
