"""`accelbench init`: writes the files of a project of the user's own."""

import os
from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context
from accelbench.errors import UserError, WriteError
from accelbench.project import PARAMS
from accelbench.settings.parser import Parser

STARTER = Path(__file__).parent / "starter"
# A file of the new project -> the file in `STARTER` with its text.
FILES = {
    PARAMS: "params.yaml",
    "dvc.yaml": "dvc.yaml",
    "my_network.py": "my_network.py.txt",
    ".gitignore": "gitignore.txt",
}
NEXT = "Next: git init && dvc init && dvc repro  (dvc: pip install 'accelbench[dvc]'); then open report/index.html"


def _add_flags(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", default=".", help="the project's folder, made if needed (the current one)")


def _run(chosen: Namespace, context: Context) -> int:
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
    lines = [f"Written to {folder}: {', '.join(FILES)}", NEXT.replace("git init", f"{where}git init")]
    context.console.print("\n".join(lines), markup=False, soft_wrap=True)
    return 0


COMMAND = Command(
    name="init",
    summary="write a project of your own, with an example network",
    add_flags=_add_flags,
    run=_run,
    description="It never overwrites a file. `dvc repro` then measures what params.yaml says and builds a report.",
)
