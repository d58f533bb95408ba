"""`accelbench doctor` for this machine, `sync` and `ui` for MLflow, `init` for a project, `completion` for bash."""

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from accelbench.commands.command import Command, command, flag, say
from accelbench.errors import UserError, how_to_install, writing_errors
from accelbench.presentation import counted
from accelbench.project import PARAMS, RESULTS, RUNS, workplace
from accelbench.sinks.location import PORT

STARTER = Path(__file__).parent / "starter"
# Name of a new file -> the file in `STARTER` with its text.
FILES = {
    PARAMS: "params.yaml",
    "dvc.yaml": "dvc.yaml",
    "my_network.py": "my_network.py.txt",
    ".gitignore": "gitignore.txt",
}
NEXT = f"git init && dvc init && dvc repro  ({how_to_install('dvc')}); then open report/index.html"
# The script contains all words. A call of accelbench at each Tab would take a second, because it imports Hydra.
COMPLETION = Path(__file__).parent / "completion.bash"


@command(
    "doctor",
    "show what this machine has and can do, and what would be skipped",
    flag("--probe", help="measure each device's peak rates first"),
    flag("--all", help="also show versions and what is skipped"),
)
def doctor(chosen: Namespace, console: Console) -> int:
    """Shows the machine."""
    from accelbench.doctor import show

    show(workplace(), console, probe=chosen.probe, whole=chosen.all)
    return 0


@command(
    "sync",
    "deliver the records that MLflow missed",
    flag("--all", help="also deliver the records of sweeps with tracking=none"),
)
def sync(chosen: Namespace, console: Console) -> int:
    """Delivers the records."""
    from accelbench.report.read import read_all
    from accelbench.schema.plan_file import sweep_folders
    from accelbench.schema.record import listed
    from accelbench.sinks.delivery import sync

    place = workplace()
    sweeps = []
    for name in (RESULTS, RUNS) if place.project else (RUNS,):
        if sweep_folders(place.root / name):
            sweeps += read_all(place.root / name)
    unreadable = [line for sweep in sweeps for line in sweep.unread]
    num_delivered = sync(place.store, [sweep.processes for sweep in sweeps], has_all=chosen.all)
    say(console, f"MLflow: {counted(num_delivered, 'run')} delivered.")
    if unreadable:
        say(console, f"Not readable: {len(unreadable)}", *(f"  {line}" for line in listed(unreadable)))
    return 0


@command(
    "ui",
    "open MLflow on the saved view",
    flag("--port", metavar="N", type=int, default=PORT, help=f"where MLflow listens ({PORT})"),
    flag("--no-browser", help="print the address only"),
)
def ui(chosen: Namespace, console: Console) -> int:
    """Runs MLflow's server."""
    from accelbench.sinks.ui import serve

    return serve(workplace().store, chosen.port, open_browser=not chosen.no_browser)


@command(
    "init",
    "write a project of your own, with an example network",
    flag("folder", nargs="?", default=".", help="the project's folder (default: the current folder)"),
    description="No file is overwritten. `dvc repro` then measures what params.yaml asks for, and builds a report.",
)
def init(chosen: Namespace, console: Console) -> int:
    """Writes the project's files."""
    folder = Path(chosen.folder)
    if existing := [name for name in FILES if os.path.lexists(folder / name)]:
        raise UserError(f"init: {', '.join(existing)} in {folder} would be overwritten: name another folder")
    with writing_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in FILES.items():
            with (folder / name).open("x") as file:
                file.write((STARTER / source).read_text())
    where = "" if folder == Path() else f"cd {folder}; "
    say(console, f"Written to {folder}: {', '.join(FILES)}", f"Next: {where}{NEXT}")
    return 0


@command(
    "completion",
    "print a script that completes accelbench's words in a shell",
    flag("shell", choices=("bash",), help="the shell to complete in"),
    description="Try it with `source <(accelbench completion bash)`; README.md explains where to save it.",
)
def completion(chosen: Namespace, console: Console) -> int:
    """Prints the script."""
    from accelbench.commands.command import load_all

    print(script(load_all(), workplace().conf), end="")
    return 0


def script(commands: Sequence[Command], conf: Path) -> str:
    """The script that completes accelbench's words in bash."""
    from accelbench.settings.config import MAPPING, every_setting

    # The settings by their dotted names. Values of settings that depend on the model are left out.
    choices = {setting.name: setting.choices for setting in every_setting(conf) if setting.kind != MAPPING}
    values = [f"        {name}) choices='{' '.join(words)}' ;;" for name, words in choices.items() if words]
    names = [f"{name}=" for name in choices]
    words_of = {command.name: command.flag_names + names * command.takes_settings for command in commands}
    flags = [f"    {name}) choices+=' {' '.join(words)}' ;;" for name, words in words_of.items()]
    flags.append(f"    *) choices+=' {' '.join(words_of[commands[0].name])}' ;;")
    parts = {"@COMMANDS@": " ".join(words_of), "@VALUES@": "\n".join(values), "@FLAGS@": "\n".join(flags)}
    text = COMPLETION.read_text()
    for mark, part in parts.items():
        text = text.replace(mark, part)
    return text
