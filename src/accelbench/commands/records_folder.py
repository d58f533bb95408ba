"""The folder of records that a command reads if the user names none."""

from pathlib import Path

from accelbench.commands.command import Context
from accelbench.errors import UserError
from accelbench.project import RECORDS, RESULTS, RUNS, Workplace
from accelbench.schema.plan_file import sweep_folders
from accelbench.schema.record import read_all

FOLDER = "records: results (a project's default), or a folder under runs/ (else the newest)"


def default_folder(place: Workplace, context: Context) -> str:
    """The folder, below `place.root`; says which one it is if it is not always the same.

    In a project that has results it is results/; elsewhere the folder below runs/ with the newest record. Raises
    UserError: there are no records.
    """
    if place.project is not None and sweep_folders(place.root / RESULTS):
        return RESULTS
    folders: dict[Path, float] = {}  # -> when its newest record was written
    for folder in sweep_folders(place.root / RUNS):
        for path, _ in read_all(folder.glob(RECORDS)).by_path():  # another program's files are no records
            folders[folder] = max(folders.get(folder, 0.0), path.stat().st_mtime)
    if not folders:
        where = f"in {RESULTS}/ or below {RUNS}/" if place.project is not None else f"below {RUNS}/ here"
        raise UserError(f"no records {where}: measure something first, or name a folder of records")
    name = str(max(folders, key=lambda folder: folders[folder]).relative_to(place.root))
    others = f", the newest of {len(folders)} in {RUNS}/: name another to read it" if len(folders) > 1 else ""
    context.say(f"Records: {name}{others}")
    return name
