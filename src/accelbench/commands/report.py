"""`accelbench report`: builds the report of a folder of records."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from accelbench import project
from accelbench.commands.command import Command, Context
from accelbench.schema.text import clean
from accelbench.settings.parser import Parser


def _add_flags(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", default="results", help="records: results, or a folder under runs/")


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.report.build import build
    from accelbench.settings import params

    root, folder = project.project_root(), Path(chosen.folder)
    out = root / "report" if folder == Path("results") else folder / "report"
    say = partial(context.console.print, markup=False, soft_wrap=True)
    page = build(root / folder, out, params.costs(root), say)
    say(clean(f"Report: {page}"))
    return 0


COMMAND = Command(
    name="report",
    summary="build the report of results/, or of a folder under runs/",
    add_flags=_add_flags,
    run=_run,
    description="The report of results/ is written to report/, any other to report/ in its folder: open index.html.",
)
