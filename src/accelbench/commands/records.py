"""The commands that work on records: `report`, `merge`, `sync` and `ui`; and the folder that is read by default."""

import os
from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context
from accelbench.errors import UserError
from accelbench.project import RECORDS, RESULTS, RUNS, Workplace, workplace
from accelbench.schema.cell import Cell
from accelbench.schema.plan_file import sweep_folders
from accelbench.schema.record import listed, read_all
from accelbench.schema.vocab import Protocol, Status
from accelbench.settings.parser import Parser
from accelbench.sinks.location import PORT


def _add_report_flags(parser: Parser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        help="records: results (a project's default), or a folder under runs/ (else the newest)",
    )


def _report(chosen: Namespace, context: Context) -> int:
    from accelbench.report.build import build
    from accelbench.settings import params

    place = workplace()
    name, which = (chosen.folder, "") if chosen.folder else default_folder(place)
    if which:
        context.say(which)
    is_results = place.project is not None and Path(name) == Path(RESULTS)
    out = place.root / "report" if is_results else Path(name) / "report"
    page = build(
        place.root / name,
        out,
        params.costs(place.project),
        context.say,
        data=place.data,
        cache=place.cache,
        extension=params.report_extension(place.project),
    )
    context.say(f"Report: {page}")
    return 0


def _add_merge_flags(parser: Parser) -> None:
    parser.add_argument("--into", metavar="FOLDER", required=True, help="the folder that gets the records")
    parser.add_argument(
        "sources", metavar="A", nargs="+", help="a folder of records, or an address such as s3://bucket/results"
    )


def _merge(chosen: Namespace, context: Context) -> int:
    from accelbench.sweep.merge import merge

    done = merge(chosen.sources, Path(chosen.into))
    os.sync()  # once, since once for each of a hundred thousand files takes many minutes
    context.say(f"{done.num_new} records added to {chosen.into}, {done.num_same} were there already.")
    for what, found in (("Not added", done.conflicts), ("Not readable", done.problems)):
        for line in [f"{what}: {len(found)}", *(f"  {line}" for line in listed(found))] if found else ():
            context.say(line)
    return 1 if done.problems or done.conflicts else 0


def _sync(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.sync import sync

    place = workplace()
    context.say(str(sync(place.store, place.record_folders)))
    return 0


def _add_ui_flags(parser: Parser) -> None:
    parser.add_argument("--port", metavar="N", type=int, default=PORT, help=f"where MLflow listens ({PORT})")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")


def _ui(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.ui import serve

    return serve(workplace().store, chosen.port, open_browser=not chosen.no_browser)


def default_folder(place: Workplace) -> tuple[str, str]:
    """The folder, below `place.root`, and a line that says which one it is; "" if it is always the same.

    Returns:
        In a project that has results, results/; elsewhere the folder below runs/ with the newest record that has a
        speed, or if none has one with the newest record.

    Raises:
        UserError: there are no records.
    """
    if place.project is not None and sweep_folders(place.root / RESULTS):
        return RESULTS, ""
    folders = {folder: newest for folder in sweep_folders(place.root / RUNS) if (newest := _newest(folder))}
    if not folders:
        where = f"in {RESULTS}/ or below {RUNS}/" if place.project is not None else f"below {RUNS}/ here"
        raise UserError(f"no records {where}: measure something first, or name a folder of records")
    name = str(max(folders, key=lambda folder: folders[folder]).relative_to(place.root))
    which = "the newest with an ok cell" if any(is_ok for is_ok, _ in folders.values()) else "the newest"
    others = f", {which} of {len(folders)} in {RUNS}/: name another to read it" if len(folders) > 1 else ""
    instead = f" ({RESULTS}/ has no records)" if place.project is not None else ""
    return name, f"Records: {name}{others}{instead}"


def _newest(folder: Path) -> tuple[bool, float] | None:
    found = None
    paths = sorted(folder.glob(RECORDS), key=_changed_s, reverse=True)
    for path, record in read_all(paths).by_path():  # another program's files are no records
        if record.status == Status.ok and not _is_try(record.cell):
            return True, _changed_s(path)
        found = found or (False, _changed_s(path))
    return found


def _is_try(cell: Cell) -> bool:
    """Whether it is a single step, which shows that a batch fits, not how fast it is."""
    return cell.protocol == Protocol.steps and cell.steps == 1


def _changed_s(path: Path) -> float:
    return path.stat().st_mtime


REPORT = Command(
    name="report",
    summary="build the report of results/, or of a folder under runs/",
    add_flags=_add_report_flags,
    run=_report,
    description="The report of results/ is written to report/, any other to report/ in its folder: open index.html.",
)
MERGE = Command(
    name="merge",
    summary="bring the records of several folders or machines together",
    add_flags=_add_merge_flags,
    run=_merge,
    usage="A [B ...] --into FOLDER",
)
SYNC = Command(name="sync", summary="deliver the records that MLflow missed", run=_sync)
UI = Command(name="ui", summary="open MLflow on the saved view", add_flags=_add_ui_flags, run=_ui)
