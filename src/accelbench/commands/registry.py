"""All commands, and which of them a command line means."""

import difflib
from collections.abc import Sequence

from accelbench.commands import best, compare, completion, doctor, plan, report, run, sync, ui
from accelbench.commands.command import Command
from accelbench.errors import UserError

COMMANDS: tuple[Command, ...] = (
    run.COMMAND,
    plan.COMMAND,
    compare.COMMAND,
    best.COMMAND,
    doctor.COMMAND,
    report.COMMAND,
    sync.COMMAND,
    ui.COMMAND,
    completion.COMMAND,
)
MAX_SHOWN = 60  # characters of an unknown word


def choose(words: Sequence[str]) -> tuple[Command, list[str]]:
    """The command that a command line names, `run` if it names none, and the words that follow the name.

    Raises:
        UserError: the first word is neither a command, a flag nor a setting, or a flag belongs to another command.
    """
    by_name = {command.name: command for command in COMMANDS}
    named = bool(words) and words[0] in by_name
    command, rest = by_name[words[0] if named else run.COMMAND.name], list(words[named:])
    if command.has_hydra_words and rest and "=" not in rest[0] and not rest[0].startswith("-"):
        near = difflib.get_close_matches(rest[0], by_name, n=1)
        suggestion = f"Did you mean {near[0]}? " if near else ""
        raise UserError(
            f"{rest[0][:MAX_SHOWN]}: unknown command. {suggestion}"
            f"Choose from: {', '.join(by_name)}; or give name=value."
        )
    for flag in {word.partition("=")[0] for word in rest if word.startswith("--")} - set(command.flags()):
        if others := [other.name for other in COMMANDS if flag in other.flags()]:
            places = " and ".join(f"`accelbench {name}`" for name in others)
            raise UserError(f"{flag}: goes with {places}, and not with `accelbench {command.name}`")
    return command, rest
