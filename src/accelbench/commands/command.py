"""Lists and declares the commands of `accelbench`. Their usage, help and completion come from the declarations.

A command's module imports only what the help needs. When the command runs, it imports the rest, such as Hydra.
"""

import argparse
import importlib
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from accelbench import presentation
from accelbench.errors import Parser, UserError, did_you_mean

MAX_WIDTH = 100  # columns of a help text: wider lines are hard to read
ALL = "all"  # the topic of --help that prints all other topics
VERBOSE = "verbose=true"  # the setting that -v stands for


# Module -> the names of its commands. The very first command is the default.
MODULES = {
    "measure": ("run", "plan"),
    "compare": ("compare", "regressions", "bisect", "selfcheck"),
    "best": ("best",),
    "show": ("report", "view", "figure"),
    "share": ("export", "bundle", "verify", "replay", "merge"),
    "project": ("doctor", "sync", "ui", "init", "completion"),
}
PLACES = {name: module for module, names in MODULES.items() for name in names}
NAMES = tuple(PLACES)
MAX_SHOWN = 60  # characters of an unknown word

# Runs a command with the parsed words, and prints on the console. Returns the exit status.
Run = Callable[[Namespace, Console], int]
Flag = tuple[tuple[str, ...], dict[str, Any]]  # the names of a flag, and further arguments of argparse's `add_argument`


def say(console: Console, *lines: object) -> None:
    """Prints each line."""
    for line in lines:
        presentation.say(console, line)


def flag(*names: str, **settings: Any) -> Flag:
    """Declares a flag, or an argument if the name has no dash. A flag with only a help text takes no value."""
    if names[0].startswith("-") and settings.keys() == {"help"}:
        settings["action"] = "store_true"
    return names, settings


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command; its name is the word after `accelbench`."""

    name: str
    summary: str  # one line for the list of commands
    run: Run
    flags: tuple[Flag, ...] = ()
    usage: str = ""  # without the program's name; by default, usage is made from the flags
    description: str = ""  # printed by --help between the summary and the flags
    epilog: Callable[[str], str] | None = (
        None  # the text of --help TOPIC; printed after the flags without a topic, and for ALL
    )
    takes_settings: bool = False  # whether name=value words are among its arguments

    def parse(self, words: Sequence[str]) -> Namespace:
        """Reads the words after the command's name. Raises UserError: a word is unknown, missing or malformed."""
        return self._parser().parse_intermixed_args(words)

    @property
    def flag_names(self) -> list[str]:
        """The flags, each by its first name."""
        return [names[0] for names, _ in self.flags if names[0].startswith("-")]

    def help(self, topic: str = "") -> str:
        """The text of `accelbench NAME --help TOPIC`. Raises UserError: the topic is unknown."""
        text = self.epilog(topic) if self.epilog else ""
        if text and topic not in ("", ALL):
            return text
        parser = self._parser()
        parser.epilog = text.rstrip() or None
        return parser.format_help()

    def _parser(self) -> Parser:
        parser = Parser(
            prog=f"accelbench {self.name}",
            usage=f"accelbench {self.name} {self.usage}".replace("%", "%%") if self.usage else None,
            description=f"{self.summary}\n\n{self.description}".rstrip(),
            formatter_class=_HelpFormatter,
            add_help=False,
        )
        for names, settings in self.flags:
            parser.add_argument(*names, **settings)
        return parser


def command(name: str, summary: str, *flags: Flag, **more: Any) -> Callable[[Run], Command]:
    """Returns a decorator that makes a command from a function. `more` are additional fields of `Command`."""
    return lambda run: Command(name=name, summary=summary, run=run, flags=flags, **more)


def width() -> int:
    """The columns of a help text."""
    return min(MAX_WIDTH, shutil.get_terminal_size().columns)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wraps long lines, and keeps line breaks. Each formatter of argparse does only one of these."""
        return "\n".join(textwrap.fill(line, width, break_long_words=False) for line in text.splitlines())


def load(name: str) -> Command:
    """The command of one of `NAMES`."""
    command: Command = getattr(importlib.import_module(f"accelbench.commands.{PLACES[name]}"), name)
    return command


def load_all() -> list[Command]:
    """All commands, in the order of `NAMES`."""
    return [load(name) for name in NAMES]


def choose(words: Sequence[str]) -> tuple[Command, list[str]]:
    """Returns the command that a command line names, and the words after the name. The default command is `run`.

    Raises UserError: the command is unknown.
    """
    first = words[0]
    if first in NAMES:
        return load(first), list(words[1:])
    if "=" not in first and not first.startswith(("-", "~")):
        word = first[:MAX_SHOWN]
        meant = did_you_mean(word, NAMES)
        raise UserError(f"{word}: unknown command.{meant} Choose from: {', '.join(NAMES)}; or give name=value.")
    return load(NAMES[0]), list(words)


def overview() -> str:
    """The help of `accelbench` itself: every command with its summary."""
    listed = "\n".join(f"  {command.name:<12}{command.summary}" for command in load_all())
    return f"""\
accelbench measures how fast a model trains and infers, and what is fastest.
usage: accelbench [run] [-m] [name=value ...], or accelbench COMMAND [flags]
{listed}
`accelbench COMMAND --help` lists flags, `accelbench run --help` settings
exit status: 0 done; 1 a cell failed, no answer, or --fail-if; 2 a mistake
"""
