"""`accelbench bundle`: the records of a folder and their published figures, in one archive to give away."""

from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context, flag
from accelbench.commands.records import FOLDER, default_folder
from accelbench.errors import writing_errors
from accelbench.project import PARAMS, RESULTS, Workplace, workplace

LOCK = "requirements.lock"


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.bundle.archive import pack
    from accelbench.report.read import read_all

    place = workplace()
    folder, out = place.root / (chosen.folder or default_folder(place, context)), Path(chosen.out)
    with writing_errors(chosen.out):
        num = pack(folder, read_all(folder, alone=True), out, _beside(folder, place))
    context.say(f"Bundle: {out}, {num} files, {out.stat().st_size / 1e3:,.0f} kB")
    return 0


def _beside(folder: Path, place: Workplace) -> dict[str, Path]:
    """What was asked for, at what costs, with which packages, and the report that was built, by names in the bundle."""
    root = place.project or folder
    report = (root if folder == root / RESULTS else folder) / "report"
    found = {f"project/{name}": root / name for name in (PARAMS, LOCK) if (root / name).is_file()}
    pages = (path for path in sorted(report.rglob("*")) if path.is_file() and not path.is_symlink())
    return found | {f"report/{path.relative_to(report).as_posix()}": path for path in pages}


COMMAND = Command(
    name="bundle",
    summary="put records and their figures into one archive",
    run=_run,
    flags=(
        flag("folder", nargs="?", help=FOLDER),
        flag("--out", metavar="FILE", required=True, help="the archive that is written, such as mine.zip"),
    ),
    description="On one machine the same records give the same bytes. `accelbench verify FILE` prints what it shows.",
)
