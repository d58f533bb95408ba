"""Completion of accelbench's words in a shell: scripts that know every command, setting and choice by themselves.

A script that asked accelbench at each key would answer after a second, which importing Hydra takes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import EnumType
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from accelbench.settings.config import GROUPS, RunConfig
from accelbench.settings.params import PROFILES

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
        before=${{before%"$last"}}  # of a list, all but the word in hand
        case $name in
{values}
        esac
        COMPREPLY=($(compgen -P "$before" -W "$choices" -- "$last"))
        # Bash takes what stands before = for a word of its own, unless it was told not to.
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
        compset -P '*[=,]'  # of a list, all but the word in hand
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
TAKE_SETTINGS = ("run", "plan", "best")  # beside a command line that names no command
# What a file of conf/ says of itself, and arguments whose names only their class knows.
NOT_GIVEN = ("name", "title", "study", "args")


def script(shell: str, commands: Mapping[str, Sequence[str]], root: Path) -> str:
    """What completes accelbench's words in `shell`.

    Args:
        shell: one of `SHELLS`.
        commands: each with its flags.
        root: the project's folder, whose conf/ has the choices.
    """
    choices = dict(settings(root))
    values = [f"        {name}) choices='{' '.join(words)}' ;;" for name, words in choices.items() if words]
    names = [f"{name}=" for name in choices]
    cases = {command: [*flags, *names] if command in TAKE_SETTINGS else flags for command, flags in commands.items()}
    flags = [f"    {command}) choices+=' {' '.join(words)}' ;;" for command, words in cases.items()]
    flags.append(f"    *) choices+=' {' '.join(cases['run'])}' ;;")
    return TEMPLATES[shell].format(values="\n".join(values), commands=" ".join(commands), flags="\n".join(flags))


def settings(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Every setting by its dotted name, with its choices; none where it takes any number or text."""
    for name, kind in get_type_hints(RunConfig).items():
        if name in GROUPS:
            yield name, sorted(path.stem for path in (root / "conf" / name).glob("*.yaml"))
        if name == "profile":
            yield name, list(PROFILES)
        elif is_dataclass(kind):
            types = get_type_hints(kind)
            for field in fields(kind):
                if (name, field.name) == ("model", "name") or field.name not in NOT_GIVEN:
                    yield f"{name}.{field.name}", _choices(types[field.name])
        else:
            yield name, _choices(kind)


def _choices(kind: Any) -> list[str]:
    """The words of an annotation: an enumeration's members, `true` and `false`, or none."""
    kind = next((part for part in get_args(kind) if part is not NoneType), kind) if NoneType in get_args(kind) else kind
    if kind is bool:
        return ["true", "false"]
    return list(kind) if isinstance(kind, EnumType) else []
