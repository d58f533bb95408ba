"""The DVC stage `retries`, run every time: lists the cells of each suite that `retry: failed` measures again.

A sweep depends on the list of its suite, retries/<suite>.json: otherwise DVC would see no change, and not run it.
"""

import sys
from pathlib import Path

from accelbench.project import PLAN, RESULTS, RETRIES, check_inside, pipelines_place
from accelbench.schema import plan_file, serialize
from accelbench.schema.vocab import RETRIED
from accelbench.settings import params
from accelbench.settings.config import Retry
from accelbench.stages import stage


def main() -> int:
    """Writes the lists; returns the exit status."""
    return stage.status_of(lambda console: write(pipelines_place().root))


def write(root: Path) -> None:
    """Writes the lists of the project in `root`.

    They hold when each record began, so that a cell that fails again makes another list.

    Raises:
        UserError: params.yaml or a plan can't be read, or the lists' folder is a link to another place.
    """
    settings = params.load(root)
    check_inside(root / RETRIES, root)
    is_on = settings.get("retry") == Retry.failed
    for suite in settings.get("suites") or {}:
        cells = _failed(root / RESULTS / str(suite)) if is_on else {}
        serialize.write_json(root / RETRIES / f"{suite}.json", cells)


def _failed(folder: Path) -> dict[str, str]:
    if not (folder / PLAN).exists():
        return {}
    failed = [record for record in plan_file.read_planned(folder) if record.status in RETRIED]
    return {record.name: record.started_at for record in failed}


if __name__ == "__main__":
    sys.exit(main())
