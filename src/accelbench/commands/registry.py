"""All commands, which of them a command line means, and what `accelbench --help` prints.

A command's module is imported when it is needed: some import Hydra or more, and `accelbench --help` should not wait.
"""

import importlib
from collections.abc import Sequence

from accelbench.commands.command import Command
from accelbench.errors import UserError, did_you_mean
from accelbench.project import workplace
from accelbench.settings.libraries import words_for

# The commands, of which the first one is the default. Each is `COMMAND` of the module that has its name.
NAMES = (
    *("run", "plan", "compare", "regressions", "bisect", "best", "doctor", "selfcheck"),
    *("report", "view", "export", "bundle", "verify", "replay", "merge", "sync", "ui", "init", "completion"),
)
MAX_SHOWN = 60  # characters of an unknown word


def load(name: str) -> Command:
    """The command of one of `NAMES`."""
    command: Command = importlib.import_module(f"accelbench.commands.{name}").COMMAND
    return command


def load_all() -> list[Command]:
    """All commands, in the order of `NAMES`."""
    return [load(name) for name in NAMES]


def choose(words: Sequence[str]) -> tuple[Command, list[str]]:
    """The command that a command line names, `run` if none, and the words that follow the name. Raises UserError."""
    named = bool(words) and words[0] in NAMES
    command, rest = load(words[0] if named else NAMES[0]), list(words[named:])
    if command.has_hydra_words and rest and "=" not in rest[0] and not rest[0].startswith(("-", "~")):
        model = _model_words(rest[0])
        meant = f" Did you mean accelbench {model}?" if model else did_you_mean(rest[0], NAMES)
        problem = f"{rest[0][:MAX_SHOWN]}: unknown command.{meant}"
        raise UserError(f"{problem} Choose from: {', '.join(NAMES)}; or give name=value.")
    return command, rest


def _model_words(word: str) -> str | None:
    """What to write for the name of a network; None if it is none."""
    if (workplace().conf / "model" / f"{word[:MAX_SHOWN]}.yaml").exists():
        return f"model={word}"
    return words_for(word)


def overview() -> str:
    """The help of `accelbench` itself: every command with its summary."""
    listed = "\n".join(f"  {command.name:<12}{command.summary}" for command in load_all())
    return f"""\
accelbench measures how fast a model trains and infers, and what is fastest.
usage: accelbench [run] [-m] [name=value ...]
       accelbench COMMAND [flags]; `accelbench COMMAND --help` lists them
{listed}
settings, such as model=cnn batch_size=32: `accelbench run --help` lists them
exit status: 0 done; 1 a cell failed, no answer, or --fail-if; 2 a mistake
"""
