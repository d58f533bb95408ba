"""`accelbench report`: builds the report of a folder of records."""

from argparse import Namespace
from functools import partial
from pathlib import Path

from accelbench.commands.command import Command, Context
from accelbench.commands.default_folder import default_folder
from accelbench.project import RESULTS, workplace
from accelbench.schema.text import clean
from accelbench.settings.parser import Parser


def _add_flags(parser: Parser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        help="records: results (a project's default), or a folder under runs/ (else the newest)",
    )


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.report.build import build
    from accelbench.settings import params

    place = workplace()
    say = partial(context.console.print, markup=False, soft_wrap=True)
    name, which = (chosen.folder, "") if chosen.folder else default_folder(place)
    if which:
        say(clean(which))
    is_results = place.project is not None and Path(name) == Path(RESULTS)
    out = place.root / "report" if is_results else Path(name) / "report"
    page = build(
        place.root / name,
        out,
        params.costs(place.project),
        say,
        data=place.data,
        cache=place.cache,
        extension=params.report_extension(place.project),
    )
    say(clean(f"Report: {page}"))
    return 0


COMMAND = Command(
    name="report",
    summary="build the report of results/, or of a folder under runs/",
    add_flags=_add_flags,
    run=_run,
    description="The report of results/ is written to report/, any other to report/ in its folder: open index.html.",
)
