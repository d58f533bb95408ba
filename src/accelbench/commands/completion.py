"""`accelbench completion`: a script that completes accelbench's words in bash."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from accelbench.commands.command import Command, Context, flag
from accelbench.project import workplace
from accelbench.settings.config import MAPPING, every_setting

# It holds all words: a script that called accelbench at each key would answer after a second, Hydra's import time.
COMPLETION = Path(__file__).parent / "completion.bash"


def script(commands: Sequence[Command], conf: Path) -> str:
    """The script that completes accelbench's words in bash."""
    # The settings by their dotted names; the values of those that depend on the model are left out.
    choices = {each.name: each.choices for each in every_setting(conf) if each.kind != MAPPING}
    values = [f"        {name}) choices='{' '.join(words)}' ;;" for name, words in choices.items() if words]
    names = [f"{name}=" for name in choices]
    words_of = {command.name: command.flag_names + names * command.takes_settings for command in commands}
    flags = [f"    {name}) choices+=' {' '.join(words)}' ;;" for name, words in words_of.items()]
    flags.append(f"    *) choices+=' {' '.join(words_of[commands[0].name])}' ;;")
    text = COMPLETION.read_text().replace("@COMMANDS@", " ".join(words_of))
    return text.replace("@VALUES@", "\n".join(values)).replace("@FLAGS@", "\n".join(flags))


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.commands.registry import load_all

    print(script(load_all(), workplace().conf), end="")
    return 0


COMMAND = Command(
    name="completion",
    summary="print a script that completes accelbench's words in a shell",
    run=_run,
    flags=(flag("shell", choices=("bash",), help="the shell to complete in"),),
    description="Try it with `source <(accelbench completion bash)`; README.md says where to save it.",
)
