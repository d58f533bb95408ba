"""`accelbench init`: a project of the user's own, with an example network."""

import os
from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context, flag
from accelbench.errors import UserError, how_to_install, writing_errors
from accelbench.project import PARAMS

STARTER = Path(__file__).parent / "starter"
# A file of the new project -> the file in `STARTER` with its text.
FILES = {
    PARAMS: "params.yaml",
    "dvc.yaml": "dvc.yaml",
    "my_network.py": "my_network.py.txt",
    ".gitignore": "gitignore.txt",
}
NEXT = f"Next: git init && dvc init && dvc repro  ({how_to_install('dvc')}); then open report/index.html"


def _run(chosen: Namespace, context: Context) -> int:
    folder = Path(chosen.folder)
    if existing := [name for name in FILES if os.path.lexists(folder / name)]:
        raise UserError(f"init: {', '.join(existing)} in {folder} would be overwritten: name another folder")
    with writing_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in FILES.items():
            with (folder / name).open("x") as file:
                file.write((STARTER / source).read_text())
    where = "" if folder == Path() else f"cd {folder}; "
    context.say(f"Written to {folder}: {', '.join(FILES)}")
    context.say(NEXT.replace("git init", f"{where}git init"))
    return 0


COMMAND = Command(
    name="init",
    summary="write a project of your own, with an example network",
    run=_run,
    flags=(flag("folder", nargs="?", default=".", help="the project's folder, made if needed (the current one)"),),
    description="It never overwrites a file. `dvc repro` then measures what params.yaml says and builds a report.",
)
