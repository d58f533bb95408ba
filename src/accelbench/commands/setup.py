"""Commands that look at or prepare a place: `doctor` and `selfcheck` a machine, `init` a project, `completion` bash."""

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from accelbench.commands.command import Command, Context, budget_in_s, flag
from accelbench.errors import UserError, WriteError
from accelbench.project import PARAMS, workplace
from accelbench.settings.about import MAPPING, every_setting

# It holds all words: a script that called accelbench at each key would answer after a second, Hydra's import time.
COMPLETION = Path(__file__).parent / "completion.bash"
MAX_MINUTES = 120  # of a selfcheck
STARTER = Path(__file__).parent / "starter"
# A file of the new project -> the file in `STARTER` with its text.
FILES = {
    PARAMS: "params.yaml",
    "dvc.yaml": "dvc.yaml",
    "my_network.py": "my_network.py.txt",
    ".gitignore": "gitignore.txt",
}
NEXT = "Next: git init && dvc init && dvc repro  (dvc: pip install 'accelbench[dvc]'); then open report/index.html"


def _doctor(chosen: Namespace, context: Context) -> int:
    from accelbench.doctor.show import show

    show(workplace(), context.console, probe=chosen.probe, whole=chosen.all)
    return 0


def _selfcheck(chosen: Namespace, context: Context) -> int:
    budget_s = budget_in_s(chosen.budget)
    if budget_s > 60 * MAX_MINUTES:
        raise UserError(f"--budget {chosen.budget}: should be at most {MAX_MINUTES}m")
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.doctor.selfcheck import selfcheck

        return selfcheck(budget_s, context.console, hosts)


def _init(chosen: Namespace, context: Context) -> int:
    folder = Path(chosen.folder)
    if existing := [name for name in FILES if os.path.lexists(folder / name)]:
        raise UserError(f"init: {', '.join(existing)} in {folder} would be overwritten: name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in FILES.items():
            with (folder / name).open("x") as file:
                file.write((STARTER / source).read_text())
    except OSError as error:
        raise WriteError(str(folder), error) from error
    where = "" if folder == Path() else f"cd {folder}; "
    context.say(f"Written to {folder}: {', '.join(FILES)}")
    context.say(NEXT.replace("git init", f"{where}git init"))
    return 0


def script(commands: Sequence[Command], conf: Path) -> str:
    """The script that completes accelbench's words in bash."""
    choices = settings(conf)
    values = [f"        {name}) choices='{' '.join(words)}' ;;" for name, words in choices.items() if words]
    names = [f"{name}=" for name in choices]
    words_of = {command.name: command.flag_names + names * command.takes_settings for command in commands}
    flags = [f"    {name}) choices+=' {' '.join(words)}' ;;" for name, words in words_of.items()]
    flags.append(f"    *) choices+=' {' '.join(words_of[commands[0].name])}' ;;")
    text = COMPLETION.read_text().replace("@COMMANDS@", " ".join(words_of))
    return text.replace("@VALUES@", "\n".join(values)).replace("@FLAGS@", "\n".join(flags))


def settings(conf: Path) -> dict[str, list[str]]:
    """Every setting by its dotted name with its choices; those that depend on the model are left out."""
    return {each.name: each.choices for each in every_setting(conf) if each.kind != MAPPING}


def _completion(chosen: Namespace, context: Context) -> int:
    from accelbench.commands.registry import load_all

    print(script(load_all(), workplace().conf), end="")
    return 0


COMMANDS = (
    Command(
        name="doctor",
        summary="show what this machine has and can do, and what would be skipped",
        run=_doctor,
        flags=(
            flag("--probe", help="measure each device's peak rates first"),
            flag("--all", help="show versions, data sets and what is skipped too"),
        ),
    ),
    Command(
        name="selfcheck",
        summary="measure how small a difference this machine can tell",
        run=_selfcheck,
        flags=(flag("--budget", metavar="10m", default="10m", help="the time that it may take (10m); in s, m or h"),),
        description="Runs small networks against themselves, and against ones that are 5 % slower, interleaved.",
    ),
    Command(
        name="init",
        summary="write a project of your own, with an example network",
        run=_init,
        flags=(flag("folder", nargs="?", default=".", help="the project's folder, made if needed (the current one)"),),
        description="It never overwrites a file. `dvc repro` then measures what params.yaml says and builds a report.",
    ),
    Command(
        name="completion",
        summary="print a script that completes accelbench's words in a shell",
        run=_completion,
        flags=(flag("shell", choices=("bash",), help="the shell to complete in"),),
        description="Try it with `source <(accelbench completion bash)`; README.md says where to save it.",
    ),
)
