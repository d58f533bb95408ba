"""The DVC stage `verdict`, the last one: names the cells that failed unexpectedly, and exits 1 if there are any.

Not in an experiment, which DVC would drop, and not with `strict: false` in params.yaml.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.errors import UserError
from accelbench.project import CONFIRMED, PARAMS, PLAN, RESULTS, pipelines_place
from accelbench.schema import plan_file
from accelbench.schema.vocab import UNEXPECTED
from accelbench.settings import params
from accelbench.stages import stage

if TYPE_CHECKING:
    from rich.console import Console

EXPERIMENT = "DVC_EXP_BASELINE_REV"  # which DVC sets for the stages of an experiment


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Names the cells; returns the exit status."""

    def judge(console: "Console") -> int:
        root = pipelines_place().root
        found = problems(root)
        for line in found:
            print(line, file=sys.stderr)
        return int(bool(found) and is_strict(root) and EXPERIMENT not in environ)

    return stage.status_of(judge)


def problems(root: Path) -> list[str]:
    """A line for each cell that failed unexpectedly, and for each record that can't be read."""
    folders = [root / RESULTS / str(suite) for suite in params.load(root).suites]
    folders += [plan.parent for plan in sorted((root / CONFIRMED).glob(f"*/{PLAN}"))]
    lines = []
    for readable in map(plan_file.read_planned, folders):
        failed = [record for record in readable if record.status in UNEXPECTED]
        lines += [f"{record.cell.suite}: {record.label}: {record.status}: {record.reason}" for record in failed]
        lines += readable.problems()
    return lines


def is_strict(root: Path) -> bool:
    """Whether params.yaml asks for an exit status 1 if a cell failed unexpectedly: so by default.

    Raises:
        UserError: `strict` is neither true nor false.
    """
    strict = params.load(root).get("strict", True)
    if not isinstance(strict, bool):
        raise UserError(f"{PARAMS}: strict={strict}: should be true or false")
    return strict


if __name__ == "__main__":
    sys.exit(main())
