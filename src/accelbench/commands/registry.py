"""All commands, and which of them a command line means.

A command's module is imported when it is needed: some import Hydra or more, and `accelbench --help` should not wait.
"""

import importlib
from collections.abc import Sequence

from accelbench.commands.command import Command
from accelbench.errors import UserError

# The commands, of which the first one is the default, and the module that has each in its `COMMANDS`.
MODULES = {
    **{name: name for name in ("run", "plan", "compare", "regressions", "best")},
    **dict.fromkeys(("doctor", "selfcheck"), "machine"),
    **dict.fromkeys(("report", "merge", "sync", "ui"), "records"),
    **{name: name for name in ("init", "completion")},
}
NAMES = tuple(MODULES)
MAX_SHOWN = 60  # characters of an unknown word


def load(name: str) -> Command:
    """The command of one of `NAMES`."""
    commands: Sequence[Command] = importlib.import_module(f"accelbench.commands.{MODULES[name]}").COMMANDS
    return next(command for command in commands if command.name == name)


def load_all() -> list[Command]:
    """All commands, in the order of `NAMES`."""
    return [load(name) for name in NAMES]


def choose(words: Sequence[str]) -> tuple[Command, list[str]]:
    """The command that a command line names, `run` if it names none, and the words that follow the name.

    Raises:
        UserError: the first word is neither a command, a flag nor a setting.
    """
    named = bool(words) and words[0] in NAMES
    command, rest = load(words[0] if named else NAMES[0]), list(words[named:])
    if command.has_hydra_words and rest and "=" not in rest[0] and not rest[0].startswith("-"):
        problem = f"{rest[0][:MAX_SHOWN]}: unknown command"
        raise UserError(f"{problem}. Choose from: {', '.join(NAMES)}; or give name=value.")
    return command, rest
