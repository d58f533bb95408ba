"""`python -m accelbench.worker cell.json data_folder`: runs one cell in this process.

The interpreter needs the cell's framework, but no other optional package.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from accelbench.engines.registry import SUBSTITUTING, host_spec
from accelbench.errors import UserError
from accelbench.isolation.child import Request, encode, respond
from accelbench.schema.cell import Cell, Status
from accelbench.schema.record import SCHEMA_VERSION, check_readable
from accelbench.schema.serialize import load


def main(words: Sequence[str]) -> int:
    """Runs one cell in this process and prints its outcome as JSON. The process must not have imported a framework.

    If `torchrun` has started several ranks, only the first rank and ranks that fail print an outcome.

    Returns the exit status: 0 if the cell is ok or skipped, 2 if the user's settings or code are the reason, else
    1.
    """
    cell, data_folder = parse(words)
    spec = host_spec(cell)
    for name in SUBSTITUTING:
        os.environ.pop(name, None)
    os.environ.update(spec.environment)
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the output of libraries must not mix with the outcome
    answer = respond(
        Request(cell=cell, engine=spec.engine, data_folder=str(data_folder), timeout_s=cell.timeout_s)
    )
    if answer.status != Status.ok or answer.measurement is not None:
        output.write(encode(answer) + "\n")
    output.close()
    if answer.user_error:
        return 2
    return 0 if answer.status in (Status.ok, Status.skipped) else 1


def parse(words: Sequence[str]) -> tuple[Cell, Path]:
    """Reads the cell and the data folder from the command line. If one of them is unusable, exits with a message."""
    parser = argparse.ArgumentParser(
        prog="python -m accelbench.worker", description="Runs one cell in this process."
    )
    parser.add_argument(
        "cell", type=Path, help="JSON file: a line of `accelbench plan --json ...`, or a record"
    )
    parser.add_argument("data_folder", type=Path, help="folder of a prepared data set, such as data/mnist")
    arguments = parser.parse_args(words)
    try:
        values = json.loads(arguments.cell.read_text())
        check_readable(values.get("schema_version", SCHEMA_VERSION))
        cell = load(Cell, values.get("cell", values))
    except (UserError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        parser.error(f"{arguments.cell}: no readable cell ({type(error).__name__}: {error})")
    return cell, arguments.data_folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
