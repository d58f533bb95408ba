"""`accelbench completion`: prints a script that completes commands, flags, settings and choices in a shell.

The script contains all words: one that called accelbench at each key would answer after a second, Hydra's import time.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import EnumType
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from accelbench import project
from accelbench.commands.command import Command, Context
from accelbench.settings.parser import Parser

SHELLS = ("bash", "zsh")

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

ZSH = """\
#compdef accelbench
# accelbench's words in zsh: printed by `accelbench completion zsh`.
_accelbench() {{
    local name=${{PREFIX%%=*}} choices= found=1
    if [[ $PREFIX == *=* ]]; then
        case $name in
{values}
        esac
        compset -P '*[=,]'  # complete the last item of a list
        compadd -S '' -- ${{=choices}}
        return
    fi
    if ((CURRENT == 2)); then
        compadd -- {commands} && found=0
    fi
    case $words[2] in
{flags}
    esac
    local -a settings=(${{(M)${{=choices}}:#*=}}) flags=(${{${{=choices}}:#*=}})
    compadd -S '' -- $settings && found=0
    compadd -- $flags && found=0
    if [[ $words[2] == (report|best|compare) ]]; then
        _files && found=0
    fi
    return found
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _accelbench "$@"
else
    compdef _accelbench accelbench
fi
"""
TEMPLATES = {"bash": BASH, "zsh": ZSH}
# Fields that files in conf/ set, and arguments whose names depend on the model.
NOT_COMPLETED = ("name", "title", "study", "args")


def script(shell: str, commands: Sequence[Command], conf: Path) -> str:
    """The script that completes accelbench's words in `shell`.

    Args:
        shell: one of `SHELLS`.
        commands: all commands; the first is the default, for a command line that names none.
        conf: the folder of the configuration, which has the choices.
    """
    choices = dict(settings(conf))
    values = [f"        {name}) choices='{' '.join(words)}' ;;" for name, words in choices.items() if words]
    names = [f"{name}=" for name in choices]
    words_of = {command.name: command.flags() + names * command.takes_settings for command in commands}
    flags = [f"    {name}) choices+=' {' '.join(words)}' ;;" for name, words in words_of.items()]
    flags.append(f"    *) choices+=' {' '.join(words_of[commands[0].name])}' ;;")
    return TEMPLATES[shell].format(values="\n".join(values), commands=" ".join(words_of), flags="\n".join(flags))


def settings(conf: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields every setting by its dotted name with its choices; no choices if it takes any number or text."""
    from accelbench.settings.config import GROUPS, RunConfig
    from accelbench.settings.params import PROFILES

    for name, kind in get_type_hints(RunConfig).items():
        if name in GROUPS:
            yield name, sorted(path.stem for path in (conf / name).glob("*.yaml"))
        if name == "profile":
            yield name, list(PROFILES)
        elif is_dataclass(kind):
            types = get_type_hints(kind)
            for field in fields(kind):
                if (name, field.name) == ("model", "name") or field.name not in NOT_COMPLETED:
                    yield f"{name}.{field.name}", _choices(types[field.name])
        else:
            yield name, _choices(kind)


def _choices(kind: Any) -> list[str]:
    """The choices of a type: an enumeration's members, `true` and `false`, or none."""
    kind = next((part for part in get_args(kind) if part is not NoneType), kind) if NoneType in get_args(kind) else kind
    if kind is bool:
        return ["true", "false"]
    return list(kind) if isinstance(kind, EnumType) else []


def _add_flags(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell to complete in")


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.commands.registry import load_all

    print(script(chosen.shell, load_all(), project.workplace().conf), end="")
    return 0


COMMAND = Command(
    name="completion",
    summary="print a script that completes accelbench's words in a shell",
    add_flags=_add_flags,
    run=_run,
    description="Try it with `source <(accelbench completion bash)`; README.md says where to save it.",
)
