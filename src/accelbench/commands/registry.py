"""Lists all commands, finds the command that a command line names, and makes the text of `accelbench --help`."""

import importlib
from collections.abc import Sequence

from accelbench.commands.command import Command
from accelbench.errors import UserError, did_you_mean

# Module -> the names of its commands. The very first command is the default.
MODULES = {
    "measure": ("run", "plan"),
    "compare": ("compare", "regressions", "bisect"),
    "best": ("best",),
    "machine": ("doctor", "selfcheck"),
    "show": ("report", "view", "figure"),
    "share": ("export", "bundle", "verify", "replay", "merge"),
    "project": ("sync", "ui", "init", "completion"),
}
PLACES = {name: module for module, names in MODULES.items() for name in names}
NAMES = tuple(PLACES)
MAX_SHOWN = 60  # characters of an unknown word


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
    named = bool(words) and words[0] in NAMES
    command = load(words[0] if named else NAMES[0])
    rest = list(words[named:])
    if command.has_hydra_words and rest and "=" not in rest[0] and not rest[0].startswith(("-", "~")):
        word = rest[0][:MAX_SHOWN]
        meant = did_you_mean(word, NAMES)
        raise UserError(f"{word}: unknown command.{meant} Choose from: {', '.join(NAMES)}; or give name=value.")
    return command, rest


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
