"""`accelbench bundle`: the records of a folder and their published figures, in one archive to give away."""

from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context, flag
from accelbench.commands.records import FOLDER, default_folder
from accelbench.errors import WriteError
from accelbench.project import workplace


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.bundle.archive import pack
    from accelbench.report.read import read_all

    place = workplace()
    folder, out = place.root / (chosen.folder or default_folder(place, context)), Path(chosen.out)
    try:
        num = pack(folder, read_all(folder), out)
    except OSError as error:
        raise WriteError(chosen.out, error) from error
    context.say(f"Bundle: {out}, {num} files, {out.stat().st_size / 1e6:.1f} MB")
    return 0


COMMAND = Command(
    name="bundle",
    summary="put records and their figures into one archive",
    run=_run,
    flags=(
        flag("folder", nargs="?", help=FOLDER),
        flag("--out", metavar="FILE", required=True, help="the archive that is written, such as mine.zip"),
    ),
    description="On one machine the same records give the same bytes. `accelbench verify FILE` says what it shows.",
)
