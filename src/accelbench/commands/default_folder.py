"""The folder of records that a command reads if the user names none."""

from pathlib import Path

from accelbench.errors import UserError
from accelbench.project import RECORDS, RESULTS, RUNS, Workplace
from accelbench.schema.plan_file import sweep_folders
from accelbench.schema.record import read_all


def default_folder(place: Workplace) -> tuple[str, str]:
    """The folder, below `place.root`, and a line that says which one it is; "" if it is always the same.

    Returns:
        In a project results/; elsewhere the folder below runs/ with the newest record.

    Raises:
        UserError: there are no records.
    """
    if place.project is not None:
        return RESULTS, ""
    newest: dict[float, Path] = {}
    for folder in sweep_folders(place.root / RUNS):
        paths = sorted(folder.glob(RECORDS), key=_changed_s, reverse=True)
        found = next(read_all(paths).by_path(), None)  # another program's files are no records
        if found is not None:
            newest[_changed_s(found[0])] = folder
    if not newest:
        raise UserError(f"no records below {RUNS}/ here: measure something first, or name a folder of records")
    name = str(newest[max(newest)].relative_to(place.root))
    others = f", the newest of {len(newest)} in {RUNS}/: name another to read it" if len(newest) > 1 else ""
    return name, f"Records: {name}{others}"


def _changed_s(path: Path) -> float:
    return path.stat().st_mtime
