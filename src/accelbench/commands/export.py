"""`accelbench export`: the published numbers of a folder of records, in the format of another tool."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from accelbench.commands.command import Command, Context, flag
from accelbench.commands.records import FOLDER, PRICE, check_devices, costs, default_folder
from accelbench.errors import UnknownChoiceError, writing_errors
from accelbench.presentation import counted
from accelbench.project import workplace
from accelbench.schema.parallel import without_collection

# Those of `report.export`, which this module does not import for its help.
FORMATS = ("bencher", "github-action-benchmark", "pytorch", "mlperf", "csv", "json")
SCHEMAS = ("record-schema", "plan-schema", "processes-schema")  # of the files, made by the functions of `json_schema`


@without_collection()
def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.report import export
    from accelbench.report.read import read_all
    from accelbench.schema import json_schema
    from accelbench.schema.serialize import json_text, writing

    if chosen.format in SCHEMAS:
        from accelbench.settings.compose import one_cell

        of_rows = [export.columns(one_cell("model=mlp")[0])] if chosen.format == "processes-schema" else []
        print(json_text(getattr(json_schema, chosen.format.partition("-")[0])(*of_rows)), end="")
        return 0
    if chosen.format not in FORMATS:
        raise UnknownChoiceError("--format", chosen.format, FORMATS + SCHEMAS)
    if chosen.out is None:  # what is printed is the numbers alone
        context = replace(context, console=Console(stderr=True))
    place = workplace()
    folder = place.root / (chosen.folder or default_folder(place, context))
    sweeps = read_all(folder, costs(chosen, place.project))
    check_devices(chosen, context, sweeps)
    text, num = export.exported(chosen.format, sweeps)
    if chosen.out is None:
        print(text, end="")
    else:
        with writing_errors(chosen.out), writing(Path(chosen.out)) as file:
            file.write_text(text, encoding="utf-8")
        context.say(f"Written: {chosen.out}")
    context.say(*(f"{sweep.folder}: {note}" for sweep in sweeps for note in sweep.notes))
    if num is not None:
        num_cells = sum(len(sweep.cells) for sweep in sweeps)
        context.say(f"{num} of {counted(num_cells, 'cell')} have a number there; the report says why others have none")
    return 0


COMMAND = Command(
    name="export",
    summary="give the published numbers in the format of another tool",
    run=_run,
    flags=(
        flag("folder", nargs="?", help=FOLDER),
        flag("--format", metavar="NAME", required=True, help=", ".join(FORMATS + SCHEMAS)),
        flag("--out", metavar="FILE", help="the file that is written; without it, the numbers are printed"),
        PRICE,
    ),
    usage="[FOLDER] --format NAME [flags]",
    description="A cell that failed or was disturbed has no number there. See docs/ci.md for jobs that use it.",
)
