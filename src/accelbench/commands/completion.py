"""`accelbench completion`: prints a script that completes commands, flags, settings and choices in bash.

The script contains all words: one that called accelbench at each key would answer after a second, Hydra's import time.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from accelbench import project
from accelbench.commands.command import Command, Context, flag
from accelbench.settings.about import MAPPING, every_setting

BASH = """\
# accelbench's words in bash: printed by `accelbench completion bash`.
_accelbench() {{
    local line=${{COMP_LINE:0:COMP_POINT}}
    local word=${{line##*[[:space:]]}} name before last choices=
    COMPREPLY=()
    if [[ $word == *=* ]]; then
        name=${{word%%=*}} before=${{word#*=}}
        last=${{before##*,}}
        before=${{before%"$last"}}  # the items of a list before the last
        case $name in
{values}
        esac
        COMPREPLY=($(compgen -P "$before" -W "$choices" -- "$last"))
        # Where = is a word break, Bash completes only what follows it.
        [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=("${{COMPREPLY[@]/#/$name=}}")
        compopt -o nospace  # a comma may follow
        return
    fi
    if ((COMP_CWORD == 1)); then
        choices="{commands}"
    fi
    case ${{COMP_WORDS[1]}} in
{flags}
    esac
    COMPREPLY=($(compgen -W "$choices" -- "$word"))
    [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
}}
complete -o default -F _accelbench accelbench
"""


def script(commands: Sequence[Command], conf: Path) -> str:
    """The script that completes accelbench's words in bash."""
    choices = settings(conf)
    values = [f"        {name}) choices='{' '.join(words)}' ;;" for name, words in choices.items() if words]
    names = [f"{name}=" for name in choices]
    words_of = {command.name: command.flag_names + names * command.takes_settings for command in commands}
    flags = [f"    {name}) choices+=' {' '.join(words)}' ;;" for name, words in words_of.items()]
    flags.append(f"    *) choices+=' {' '.join(words_of[commands[0].name])}' ;;")
    return BASH.format(values="\n".join(values), commands=" ".join(words_of), flags="\n".join(flags))


def settings(conf: Path) -> dict[str, list[str]]:
    """Every setting by its dotted name with its choices; those that depend on the model are left out."""
    return {each.name: each.choices for each in every_setting(conf) if each.kind != MAPPING}


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.commands.registry import load_all

    print(script(load_all(), project.workplace().conf), end="")
    return 0


COMMANDS = (
    Command(
        name="completion",
        summary="print a script that completes accelbench's words in a shell",
        run=_run,
        flags=(flag("shell", choices=("bash",), help="the shell to complete in"),),
        description="Try it with `source <(accelbench completion bash)`; README.md says where to save it.",
    ),
)
