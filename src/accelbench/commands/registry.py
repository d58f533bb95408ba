"""All commands, and which of them a command line means.

A command's module is imported when it is needed: some import Hydra or more, and `accelbench --help` should not wait.
"""

import difflib
import importlib
from collections.abc import Sequence

from accelbench.commands.command import Command
from accelbench.errors import UserError

# The commands; the first one is the default. Each has a module of its name, or is a constant of a module of several.
NAMES: tuple[str, ...] = (
    "run",
    "plan",
    "compare",
    "regressions",
    "best",
    "doctor",
    "selfcheck",
    "report",
    "merge",
    "sync",
    "ui",
    "init",
)
NAMES += ("completion",)
SHARED = {"doctor": "machine", "selfcheck": "machine", **dict.fromkeys(("report", "merge", "sync", "ui"), "records")}
MAX_SHOWN = 60  # characters of an unknown word


def load(name: str) -> Command:
    """The command of one of `NAMES`."""
    module = importlib.import_module(f"accelbench.commands.{SHARED.get(name, name)}")
    command: Command = getattr(module, name.upper() if name in SHARED else "COMMAND")
    return command


def load_all() -> list[Command]:
    """All commands, in the order of `NAMES`."""
    return [load(name) for name in NAMES]


def choose(words: Sequence[str]) -> tuple[Command, list[str]]:
    """The command that a command line names, `run` if it names none, and the words that follow the name.

    Raises:
        UserError: the first word is neither a command, a flag nor a setting, or a flag belongs to another command.
    """
    named = bool(words) and words[0] in NAMES
    command, rest = load(words[0] if named else NAMES[0]), list(words[named:])
    if command.has_hydra_words and rest and "=" not in rest[0] and not rest[0].startswith("-"):
        near = difflib.get_close_matches(rest[0], NAMES, n=1)
        suggestion = f"Did you mean {near[0]}? " if near else ""
        raise UserError(
            f"{rest[0][:MAX_SHOWN]}: unknown command. {suggestion}Choose from: {', '.join(NAMES)}; or give name=value."
        )
    for flag in {word.partition("=")[0] for word in rest if word.startswith("--")} - set(command.flag_names):
        if others := [other.name for other in load_all() if flag in other.flag_names]:
            places = " and ".join(f"`accelbench {name}`" for name in others)
            raise UserError(f"{flag}: goes with {places}, and not with `accelbench {command.name}`")
    return command, rest
