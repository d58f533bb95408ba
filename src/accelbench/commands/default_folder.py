"""The folder of records that a command reads if the user names none."""

from accelbench.errors import UserError
from accelbench.project import RECORDS, RESULTS, RUNS, Workplace
from accelbench.schema.plan_file import sweep_folders


def default_folder(place: Workplace) -> tuple[str, str]:
    """The folder, below `place.root`, and a line that says which one it is; "" if it is always the same.

    Returns:
        In a project results/; elsewhere the folder below runs/ with the newest record.

    Raises:
        UserError: there are no records.
    """
    if place.project is not None:
        return RESULTS, ""
    newest: dict[float, str] = {}
    for folder in sweep_folders(place.root / RUNS):
        if times := [path.stat().st_mtime for path in folder.glob(RECORDS)]:
            newest[max(times)] = str(folder.relative_to(place.root))
    if not newest:
        raise UserError(f"no records below {RUNS}/ here: measure something first, or name a folder of records")
    name = newest[max(newest)]
    others = f", the newest of {len(newest)} in {RUNS}/: name another to read it" if len(newest) > 1 else ""
    return name, f"Records: {name}{others}"
