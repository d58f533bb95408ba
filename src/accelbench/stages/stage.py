"""What the stages that measure share: `make repro` does their work if it runs them, and else they do it themselves."""

import json
import os
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from accelbench.lifeline import end_with_parent

if TYPE_CHECKING:  # a stage that only asks needs none of it
    from rich.console import Console

# The path of a socket, in the environment of DVC and its stages while `make repro` runs.
VARIABLE = "ACCELBENCH_JOB"


def run(words: list[str], measure: "Callable[[Console], int | None]") -> int:
    """Runs a stage; returns its exit status.

    Args:
        words: what the stage asks of `make repro`, such as `["sweep", "mnist_networks"]`.
        measure: does the same in this process, and may return an exit status.
    """
    end_with_parent()
    try:
        status = _ask(words)
        return status_of(measure) if status is None else status
    except KeyboardInterrupt:
        print("\nInterrupted; every finished cell has its record.", file=sys.stderr)
        return 130


def status_of(measure: "Callable[[Console], int | None]") -> int:
    """What `measure` returns, or 0; 2 after a mistake of the user, whose message is shown."""
    from rich.console import Console

    from accelbench.schema.text import clean
    from accelbench.settings.hydra_errors import user_error_behind

    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return measure(Console(highlight=False)) or 0
    except Exception as error:
        mistake = user_error_behind(error)
        if mistake is None:
            raise
        print(f"error: {clean(str(mistake))}", file=sys.stderr)
        return 2


def _ask(words: list[str]) -> int | None:
    """The exit status that `make repro` answers; None if it does not run, or can't measure this."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return None
    with socket.socket(socket.AF_UNIX) as job:
        try:
            job.connect(path)
        except OSError:
            return None
        try:
            job.sendall(json.dumps(words).encode() + b"\n")
            answer = job.makefile().readline()
        except (OSError, KeyboardInterrupt):
            answer = ""
    status: int | None = json.loads(answer) if answer else 130  # it has ended, and said why
    return status
