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


def choose(words: Sequence[str]) -> tuple[Command, list[str]]:
    """The command that a command line names, `run` if it names none, and the words that follow the name.

    Raises:
        UserError: the first word is neither a command, a flag nor a setting.
    """
    by_name = {command.name: command for command in COMMANDS}
    named = bool(words) and words[0] in by_name
    command, rest = by_name[words[0] if named else run.COMMAND.name], list(words[named:])
    if command.has_hydra_words and rest and "=" not in rest[0] and not rest[0].startswith("-"):
        near = difflib.get_close_matches(rest[0], by_name, n=1)
        suggestion = f"Did you mean {near[0]}? " if near else ""
        raise UserError(
            f"{rest[0]}: unknown command. {suggestion}Choose from: {', '.join(by_name)}; or give name=value."
        )
    return command, rest
