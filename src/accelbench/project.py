"""Where a project's files are: its root, its store, and the names of its files."""

import os
from pathlib import Path

from accelbench.errors import UserError

# The names of a project's files. No other module spells them.
PARAMS = "params.yaml"
ENVIRONMENT = "environment.json"  # the fingerprint of machine, versions and code, which every sweep depends on
CEILINGS = "ceilings.json"  # what each device was seen to do at most
PLAN = "plan.json"  # the cells that a sweep wants
CONFIRMED = "confirmed"  # the folder beside results/ for the repeats that say which of two cells is faster
RECORD_FOLDERS = ("results", CONFIRMED, "runs")  # where the records of a project are
COMPARISON = "compare.json"  # which records of a folder belong to which side of a comparison
MANIFEST = "manifest.json"  # of a prepared data set
RECORDS = f"{'[0-9a-f]' * 12}-{'[0-9a-f]' * 8}.json"  # the pattern of `Record.name`


def project_root() -> Path:
    """The project's folder: the nearest one, from the current folder up, that holds params.yaml and conf/.

    Raises:
        UserError: no such folder was found.
    """
    here = Path.cwd()
    for folder in [here, *here.parents]:
        if (folder / PARAMS).exists() and (folder / "conf" / "config.yaml").exists():
            return folder
    raise UserError(f"no {PARAMS} beside a conf/ folder here or above {here}: run accelbench inside its project")


def shown(path: Path) -> str:
    """`path` as messages name it: relative to the current folder if it is below it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def store_root(root: Path) -> Path:
    """The folder for files that must outlive an experiment: DVC's main checkout in a queued experiment, else `root`."""
    return Path(os.environ.get("DVC_ROOT") or root)
