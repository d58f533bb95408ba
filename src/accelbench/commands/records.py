"""The commands that work on records: `report`, `merge`, `sync` and `ui`; and the folder that is read by default."""

import os
from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context, flag
from accelbench.errors import UserError
from accelbench.project import RECORDS, RESULTS, RUNS, Workplace, workplace
from accelbench.schema.plan_file import sweep_folders
from accelbench.schema.record import listed, read_all
from accelbench.sinks.location import PORT

FOLDER = "records: results (a project's default), or a folder under runs/ (else the newest)"


def _report(chosen: Namespace, context: Context) -> int:
    from accelbench.report.build import build
    from accelbench.settings import params

    place = workplace()
    name = chosen.folder or default_folder(place, context)
    is_results = place.project is not None and Path(name) == Path(RESULTS)
    out = place.root / "report" if is_results else Path(name) / "report"
    extension, costs = params.report_extension(place.project), params.costs(place.project)
    wanted = params.wanted_suites(place.project, place.root / name)
    page = build(place.root / name, out, costs, context.say, cache=place.cache, extension=extension, wanted=wanted)
    context.say(f"Report: {page}")
    return 0


def _merge(chosen: Namespace, context: Context) -> int:
    from accelbench.sweep.merge import merge

    done = merge(chosen.sources, Path(chosen.into))
    os.sync()  # once, since once for each of a hundred thousand files takes many minutes
    context.say(f"{done.num_new} records added to {chosen.into}, {done.num_same} were there already.")
    for what, found in (("Not added", done.conflicts), ("Not readable", done.problems)):
        if found:
            context.say(f"{what}: {len(found)}", *(f"  {line}" for line in listed(found)))
    return 1 if done.problems or done.conflicts else 0


def _sync(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.delivery import sync

    place = workplace()
    context.say(str(sync(place.store, place.record_folders)))
    return 0


def _ui(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.ui import serve

    return serve(workplace().store, chosen.port, open_browser=not chosen.no_browser)


def default_folder(place: Workplace, context: Context) -> str:
    """The folder, below `place.root`; says which one it is if it is not always the same.

    In a project that has results it is results/; elsewhere the folder below runs/ with the newest record. Raises
    UserError: there are no records.
    """
    if place.project is not None and sweep_folders(place.root / RESULTS):
        return RESULTS
    folders: dict[Path, float] = {}  # -> when its newest record was written
    for folder in sweep_folders(place.root / RUNS):
        for path, _ in read_all(folder.glob(RECORDS)).by_path():  # another program's files are no records
            folders[folder] = max(folders.get(folder, 0.0), path.stat().st_mtime)
    if not folders:
        where = f"in {RESULTS}/ or below {RUNS}/" if place.project is not None else f"below {RUNS}/ here"
        raise UserError(f"no records {where}: measure something first, or name a folder of records")
    name = str(max(folders, key=lambda folder: folders[folder]).relative_to(place.root))
    others = f", the newest of {len(folders)} in {RUNS}/: name another to read it" if len(folders) > 1 else ""
    context.say(f"Records: {name}{others}")
    return name


REPORT = Command(
    name="report",
    summary="build the report of results/, or of a folder under runs/",
    run=_report,
    flags=(flag("folder", nargs="?", help=FOLDER),),
    description="The report of results/ is written to report/, any other to report/ in its folder: open index.html.",
)
MERGE = Command(
    name="merge",
    summary="bring the records of several folders or machines together",
    run=_merge,
    flags=(
        flag("--into", metavar="FOLDER", required=True, help="the folder that gets the records"),
        flag("sources", metavar="A", nargs="+", help="a folder of records, or an address such as s3://bucket/results"),
    ),
    usage="A [B ...] --into FOLDER",
)
SYNC = Command(name="sync", summary="deliver the records that MLflow missed", run=_sync)
UI = Command(
    name="ui",
    summary="open MLflow on the saved view",
    run=_ui,
    flags=(
        flag("--port", metavar="N", type=int, default=PORT, help=f"where MLflow listens ({PORT})"),
        flag("--no-browser", help="print the address only"),
    ),
)
COMMANDS = (REPORT, MERGE, SYNC, UI)
