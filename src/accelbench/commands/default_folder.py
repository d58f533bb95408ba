"""The folder of records that a command reads if the user names none."""

from pathlib import Path

from accelbench.errors import UserError
from accelbench.project import RECORDS, RESULTS, RUNS, Workplace
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import sweep_folders
from accelbench.schema.record import read_all
from accelbench.schema.vocab import Protocol, Status


def default_folder(place: Workplace) -> tuple[str, str]:
    """The folder, below `place.root`, and a line that says which one it is; "" if it is always the same.

    Returns:
        In a project that has results, results/; elsewhere the folder below runs/ with the newest record that has a
        speed, or if none has one with the newest record.

    Raises:
        UserError: there are no records.
    """
    if place.project is not None and sweep_folders(place.root / RESULTS):
        return RESULTS, ""
    folders = {folder: newest for folder in sweep_folders(place.root / RUNS) if (newest := _newest(folder))}
    if not folders:
        where = f"in {RESULTS}/ or below {RUNS}/" if place.project is not None else f"below {RUNS}/ here"
        raise UserError(f"no records {where}: measure something first, or name a folder of records")
    name = str(max(folders, key=lambda folder: folders[folder]).relative_to(place.root))
    which = "the newest with an ok cell" if any(is_ok for is_ok, _ in folders.values()) else "the newest"
    others = f", {which} of {len(folders)} in {RUNS}/: name another to read it" if len(folders) > 1 else ""
    instead = f" ({RESULTS}/ has no records)" if place.project is not None else ""
    return name, f"Records: {name}{others}{instead}"


def _newest(folder: Path) -> tuple[bool, float] | None:
    found = None
    paths = sorted(folder.glob(RECORDS), key=_changed_s, reverse=True)
    for path, record in read_all(paths).by_path():  # another program's files are no records
        if record.status == Status.ok and not _is_try(record.cell):
            return True, _changed_s(path)
        found = found or (False, _changed_s(path))
    return found


def _is_try(cell: Cell) -> bool:
    """Whether it is a single step, which shows that a batch fits, not how fast it is."""
    return cell.protocol == Protocol.steps and cell.steps == 1


def _changed_s(path: Path) -> float:
    return path.stat().st_mtime
