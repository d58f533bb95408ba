"""What a command of `accelbench` declares; usage, help and shell completion are derived from it.

A command's module imports only what its help needs. What running it needs, such as Hydra, is imported when it runs.
"""

import argparse
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Console

from accelbench.errors import Parser
from accelbench.presentation import say

MAX_WIDTH = 100  # columns of a help text: wider lines are hard to read
VERBOSE = "verbose=true"  # the setting that -v stands for


@dataclass(frozen=True, kw_only=True)
class Context:
    """What every command is given besides its words."""

    console: Console  # where results and progress are printed

    def say(self, *lines: object) -> None:
        """Prints each line."""
        for line in lines:
            say(self.console, line)


class Flag(NamedTuple):
    """A flag or an argument, as argparse declares it."""

    names: tuple[str, ...]
    settings: dict[str, Any]  # of `add_argument`


def flag(*names: str, **settings: Any) -> Flag:
    """A flag, or an argument if its name has no dash; a flag with nothing but a help text is a switch."""
    is_switch = names[0].startswith("-") and set(settings) == {"help"}
    return Flag(names, settings | ({"action": "store_true"} if is_switch else {}))


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command; its name is the word after `accelbench`."""

    name: str
    summary: str  # one line for the list of commands
    run: Callable[[argparse.Namespace, Context], int]  # runs it with what the parser read; returns the exit status
    flags: tuple[Flag, ...] = ()
    usage: str = ""  # without the program's name, if the line made from the flags would promise too much
    description: str = ""  # what --help says between the summary and the flags
    epilog: Callable[[], str] | None = None  # what --help says after the flags
    takes_settings: bool = False  # whether name=value words are among its arguments
    has_hydra_words: bool = False  # whether other words than its flags are passed on to Hydra, as `words`, in order

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Reads the words that follow the command's name. Raises UserError: one is unknown, missing or malformed."""
        parser = self._parser()
        if not self.has_hydra_words:
            return parser.parse_intermixed_args(words)
        chosen, others = parser.parse_known_args(words)
        if unknown := [word for word in others if word.startswith("--") and word not in ("--", "--multirun")]:
            parser.error(f"unrecognized arguments: {unknown[0]}")
        chosen.words = others
        return chosen

    @property
    def flag_names(self) -> list[str]:
        """The flags, each in its first spelling."""
        return [each.names[0] for each in self.flags if each.names[0].startswith("-")]

    def help(self) -> str:
        """What `accelbench NAME --help` prints."""
        parser = self._parser()
        parser.epilog = self.epilog().rstrip() if self.epilog else None
        return parser.format_help()

    def _parser(self) -> Parser:
        parser = Parser(
            prog=f"accelbench {self.name}",
            usage=f"accelbench {self.name} {self.usage}".replace("%", "%%") if self.usage else None,
            description="\n\n".join(filter(None, [self.summary, self.description.rstrip()])),
            formatter_class=_HelpFormatter,
            add_help=False,
        )
        for names, settings in self.flags:
            parser.add_argument(*names, **settings)
        if self.has_hydra_words:
            parser.usage = parser.format_usage().removeprefix("usage: ").rstrip() + " [name=value ...]"
        return parser


def width() -> int:
    """The columns of a help text."""
    return min(MAX_WIDTH, shutil.get_terminal_size().columns)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Keeps the lines, unlike argparse's default, and wraps the long ones, unlike its raw formatters."""
        return "\n".join(textwrap.fill(line, width, break_long_words=False) for line in text.splitlines())
