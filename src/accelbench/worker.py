"""`python -m accelbench.worker cell.json data_folder`: one cell in this process, with its framework and little else."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from accelbench.engines.registry import SUBSTITUTING, host_spec
from accelbench.isolation.child import _outcome
from accelbench.project import MANIFEST
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import load
from accelbench.schema.vocab import Status


def alone(words: Sequence[str]) -> int:
    """Runs one cell in this process, which has imported no framework yet, and prints its outcome as JSON.

    Of several ranks, as `torchrun` starts them, the first prints it; the others say why they failed, if they did.

    Args:
        words: those of the command line.

    Returns:
        The exit status: 0 where the cell is ok or skipped, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m accelbench.worker", description="Runs one cell in this process.")
    parser.add_argument("cell", type=Path, help="its JSON: a line of `accelbench plan --json ...`, or a record")
    parser.add_argument("data_folder", type=Path, help="a prepared data set, such as data/mnist")
    chosen = parser.parse_args(words)
    try:
        values = json.loads(chosen.cell.read_text())
        cell = load(Cell, values.get("cell", values))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        parser.error(f"{chosen.cell}: no readable cell ({type(error).__name__}: {error})")
    if not (chosen.data_folder / MANIFEST).exists():
        parser.error(f"{chosen.data_folder}: no prepared data set (it has no {MANIFEST})")
    spec = host_spec(cell)
    for name in SUBSTITUTING:
        os.environ.pop(name, None)
    os.environ.update(spec.environment)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints
    outcome = _outcome({"cell": cell.to_json(), "engine": spec.engine, "data_folder": str(chosen.data_folder)})
    if outcome["status"] != Status.ok or "measurement" in outcome:
        answers.write(json.dumps(outcome) + "\n")
    answers.close()
    return 0 if outcome["status"] in (Status.ok, Status.skipped) else 1


if __name__ == "__main__":
    sys.exit(alone(sys.argv[1:]))
