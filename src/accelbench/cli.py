"""The command line. It runs the command that the user names, and returns the exit status."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from rich.console import Console

from accelbench.commands.command import choose, overview
from accelbench.errors import Interrupted, UserError
from accelbench.project import mend_environment
from accelbench.schema.secrets import masked
from accelbench.schema.text import clean

HELP = {"-h", "--help"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status. `arguments`: words of the command; default: `sys.argv`.

    Returns:
        0: done. 1: a cell failed unexpectedly, there is no answer, or a check such as --fail-if failed. 2: the user
        made a mistake, and stderr explains how to correct it. 130: interrupted. 141: the output is a pipe, and its
        reader, such as `head`, has ended.
    """
    _replace_closed_streams()
    mend_environment()
    # Output is written line by line, so that a log shows each cell at once. Letters that the output's encoding lacks
    # become escapes.
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        text = _asked_text(words)
        print(text, end="")
        status = 0
        if not text:
            command, rest = choose(words)
            status = command.run(command.parse(rest), _Console(highlight=False))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as stop:
        message = f"\n{str(stop) or 'Interrupted; every finished cell has its record.'}"
        if isinstance(stop, Interrupted) and stop.folder and words[0] != "replay":  # a replay begins again
            message += f"\nTo go on: the same command with out={stop.folder}"
        status = 130
    except BrokenPipeError:
        # Otherwise Python would fail again when it flushes the output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE
    except Exception as error:
        mistake: Exception | None = error
        if not isinstance(error, UserError):
            from accelbench.settings.compose import user_error_behind  # not at the top: it imports Hydra

            mistake = user_error_behind(error)
        if mistake is None:
            raise
        message = f"accelbench: {clean(masked(str(mistake)))}"
        status = 2
    with contextlib.suppress(OSError):  # if stderr is full or closed, only the exit status reports the error
        print(message, file=sys.stderr)
    return status


def _asked_text(words: list[str]) -> str:
    """Returns the help or the version that the words ask for. If they ask for neither, returns an empty text."""
    if not words or words[0] in {*HELP, "help"}:
        return overview()
    if words[0] == "--version":
        from importlib.metadata import version  # not at the top: this import takes 50 ms

        return f"accelbench {version('accelbench')}\n"
    if not HELP & set(words):
        return ""
    command, rest = choose(words)
    return command.help("" if rest[-1] in HELP or "=" in rest[-1] else rest[-1])


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Passes the error on to `main`. By default rich would exit with status 1."""
        raise  # rich calls this method while it handles the error


def _replace_closed_streams() -> None:
    """Opens /dev/null for each closed standard stream. Else the next opened file would get its number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115


if __name__ == "__main__":
    sys.exit(main())
