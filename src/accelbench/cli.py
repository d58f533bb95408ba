"""The command line: words -> a command -> an exit status; the one place where a user's mistake becomes status 2."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from accelbench.commands.command import Context
from accelbench.commands.overview import overview
from accelbench.commands.registry import COMMANDS, choose
from accelbench.schema.text import clean
from accelbench.settings.hydra_errors import user_error_behind

HELP = {"-h", "--help"}


def main(arguments: Sequence[str] | None = None, out: Path | None = None) -> int:
    """Runs one command and returns its exit status.

    Args:
        arguments: the words after the program's name; None for this process's.
        out: the folder for a sweep's records, which only the pipeline chooses.

    Returns:
        0: done. 1: done, but a cell failed unexpectedly, or what the command checks for holds. 2: a mistake that the
        user can correct; stderr says how. 130: interrupted.
    """
    # Line by line, so that a log shows each cell at once. Letters that the output's encoding lacks become escapes.
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words, out)
    except KeyboardInterrupt:
        print("\nInterrupted; every finished cell has its record.", file=sys.stderr)
        return 130
    except Exception as error:
        mistake = user_error_behind(error)
        if mistake is None:
            raise
        print(f"accelbench: {clean(str(mistake))}", file=sys.stderr)
        return 2


def _run(words: list[str], out: Path | None) -> int:
    if words and words[0] in {*HELP, "help"}:
        print(overview(COMMANDS), end="")
        return 0
    command, rest = choose(words)
    if HELP & set(rest):
        print(command.help(), end="")
        return 0
    return command.run(command.parse(rest), Context(console=Console(highlight=False), out=out, commands=COMMANDS))


if __name__ == "__main__":
    sys.exit(main())
