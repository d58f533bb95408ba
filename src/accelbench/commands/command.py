"""What a command of `accelbench` declares; usage, help, suggestions and shell completion are derived from it.

A command's module imports only what its help needs. What running it needs, such as Hydra, is imported when it runs.
"""

import argparse
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from accelbench.schema.text import clean
from accelbench.settings.parser import Parser

MAX_WIDTH = 100  # columns of a help text: wider lines are hard to read
VERBOSE = "verbose=true"  # the setting that -v stands for


@dataclass(frozen=True, kw_only=True)
class Context:
    """What every command is given besides its words.

    Attributes:
        console: where results and progress are printed.
        out: the folder for a sweep's records, which only the pipeline chooses; None: the user's `out=`.
    """

    console: Console
    out: Path | None

    def say(self, text: object) -> None:
        """Prints a line as it is, but for what a terminal would take as a command."""
        self.console.print(clean(str(text)), markup=False, soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command.

    Attributes:
        name: the word after `accelbench`.
        summary: one line for the list of commands.
        add_flags: declares the flags and arguments, with their help, on the command's parser.
        run: runs the command with what the parser read; returns the exit status.
        usage: its usage line, without the program's name, if the one made from the flags would promise too much.
        description: what its --help says between the summary and the flags.
        epilog: gives what its --help says after the flags.
        takes_settings: whether name=value words are among its arguments.
        has_hydra_words: whether words that are not its flags are passed on to Hydra, as `words`, in their order.
    """

    name: str
    summary: str
    run: Callable[[argparse.Namespace, Context], int]
    add_flags: Callable[[Parser], None] = lambda parser: None
    usage: str = ""
    description: str = ""
    epilog: Callable[[], str] | None = None
    takes_settings: bool = False
    has_hydra_words: bool = False

    def parser(self) -> Parser:
        """The parser of the words that follow the command's name."""
        paragraphs = [self.summary, *([self.description.rstrip()] if self.description else [])]
        parser = Parser(
            prog=f"accelbench {self.name}",
            usage=f"accelbench {self.name} {self.usage}".replace("%", "%%") if self.usage else None,
            description="\n\n".join(paragraphs),
            formatter_class=_HelpFormatter,
            add_help=False,
        )
        self.add_flags(parser)
        if self.has_hydra_words:
            parser.usage = parser.format_usage().removeprefix("usage: ").rstrip() + " [name=value ...]"
        return parser

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Reads the words that follow the command's name.

        Raises:
            UserError: a flag or an argument is unknown, missing or malformed.
        """
        parser = self.parser()
        if not self.has_hydra_words:
            return parser.parse_intermixed_args(words)
        chosen, others = parser.parse_known_args(words)
        chosen.words = others
        return chosen

    def flags(self) -> list[str]:
        """The flags, each in its first spelling."""
        return self.parser().flags

    def help(self) -> str:
        """What `accelbench NAME --help` prints."""
        parser = self.parser()
        parser.epilog = self.epilog().rstrip() if self.epilog else None
        return parser.format_help()


def width() -> int:
    """The columns of a help text."""
    return min(MAX_WIDTH, shutil.get_terminal_size().columns)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Keeps the lines, unlike argparse's default, and wraps the long ones, unlike its raw formatters."""
        return "\n".join(textwrap.fill(line, width, break_long_words=False) for line in text.splitlines())
