"""The stages of dvc.yaml: `python -m accelbench.stages NAME [suite or data set]`.

`inputs.py` and `work.py` have the code of the stages. A stage that has nothing to do imports neither file.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from accelbench.lifeline import end_with_parent

if TYPE_CHECKING:
    from rich.console import Console

# An environment variable: names of the suites that `make repro` has measured, and the word `confirm`.
DONE = "ACCELBENCH_DONE"
MEASURING = ("run_suite", "confirm")
INPUTS = ("list_source", "prepare_data", "write_environment")
STAGES = (*MEASURING, *INPUTS, "list_retries", "build_report", "verdict")


def main(words: Sequence[str] | None = None) -> int:
    """Runs the stage that `words`, or the command line, names. Returns the exit status: 2 if it could not start."""
    name, *keys = sys.argv[1:] if words is None else words
    if name not in STAGES:
        print(f"error: {name}: unknown stage. Choose from: {', '.join(STAGES)}.", file=sys.stderr)
        return 2
    try:
        if name in MEASURING:
            end_with_parent()
            if (keys or [name])[0] in os.environ.get(DONE, "").split():
                return 0
        stage = getattr(import_module(f"accelbench.stages.{'inputs' if name in INPUTS else 'work'}"), name)
        return status_of(lambda console: stage(console, *keys))
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


def status_of(run: "Callable[[Console], int | None]") -> int:
    """Calls `run`. Returns its exit status, or 0 for None. If the user made a mistake, prints it and returns 2."""
    from rich.console import Console

    from accelbench.project import mend_environment

    mend_environment()
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return run(Console(highlight=False)) or 0
    except Exception as error:  # the imports below take long, and only an error needs them
        from accelbench.schema.secrets import masked
        from accelbench.schema.text import clean
        from accelbench.settings.hydra_errors import user_error_behind

        mistake = user_error_behind(error)
        if mistake is None:
            raise
        print(f"error: {clean(masked(str(mistake)))}", file=sys.stderr)
        return 2
