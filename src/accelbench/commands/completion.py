"""`accelbench completion`: prints a script that completes commands, flags, settings and choices in a shell.

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


def script(shell: str, commands: Sequence[Command], conf: Path) -> str:
    """The script that completes accelbench's words in `shell`."""
    choices = settings(conf)
    values = [f"        {name}) choices='{' '.join(words)}' ;;" for name, words in choices.items() if words]
    names = [f"{name}=" for name in choices]
    words_of = {command.name: command.flag_names + names * command.takes_settings for command in commands}
    flags = [f"    {name}) choices+=' {' '.join(words)}' ;;" for name, words in words_of.items()]
    flags.append(f"    *) choices+=' {' '.join(words_of[commands[0].name])}' ;;")
    return TEMPLATES[shell].format(values="\n".join(values), commands=" ".join(words_of), flags="\n".join(flags))


def settings(conf: Path) -> dict[str, list[str]]:
    """Every setting by its dotted name with its choices; no choices if it takes any number or text.

    Names of arguments depend on the model: they are left out.
    """
    return {each.name: each.choices for each in every_setting(conf) if each.kind != MAPPING}


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.commands.registry import load_all

    print(script(chosen.shell, load_all(), project.workplace().conf), end="")
    return 0


COMMANDS = (
    Command(
        name="completion",
        summary="print a script that completes accelbench's words in a shell",
        run=_run,
        flags=(flag("shell", choices=tuple(TEMPLATES), help="the shell to complete in"),),
        description="Try it with `source <(accelbench completion bash)`; README.md says where to save it.",
    ),
)
