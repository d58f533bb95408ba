"""`accelbench export`, `bundle`, `verify`, `replay` and `merge`: share records, and use records of others."""

from argparse import Namespace
from pathlib import Path

from rich.console import Console

from accelbench.commands.command import (
    BUDGET,
    FOLDER,
    PRICE,
    budget_in_s,
    command,
    costs,
    default_folder,
    flag,
    say,
    say_notes,
)
from accelbench.errors import UnknownChoiceError, UserError, writing_errors
from accelbench.project import workplace

# The same as in `report.export`. Help texts do not import that module, since it takes long.
FORMATS = ("bencher", "github-action-benchmark", "pytorch", "csv", "json")
SCHEMAS = ("record-schema", "plan-schema")  # `json_schema` has a function for each
REPLAY = """\
Measures and compares the two cells of each claim, like `compare --run`, in 5 fresh, interleaved processes each.
  holds         the claimed verdict (faster, or the same) is right here
  doesn't hold  the claimed verdict is wrong here
  can't tell    the interval of the ratio decides nothing, or too few processes ran
  not measured  this machine can't run a cell, --trust is missing, or --cells or --budget is too small
Exit status 1: a claim does not hold, or no claim holds.
"""


@command(
    "export",
    "convert the measured numbers into another tool's format",
    FOLDER,
    flag("--format", metavar="NAME", required=True, help=", ".join(FORMATS + SCHEMAS)),
    flag("--out", metavar="FILE", help="write the numbers into this file, instead of printing them"),
    PRICE,
    usage="[FOLDER] --format NAME [flags]",
    description="Cells that failed or were disturbed are left out. docs/comparing.md shows jobs for CI.",
)
def export(chosen: Namespace, console: Console) -> int:
    """Prints or writes the numbers, or the schema of a file."""
    from accelbench.report.export import exported
    from accelbench.report.read import read_all
    from accelbench.schema import json_schema
    from accelbench.schema.serialize import json_text, writing

    if chosen.format in SCHEMAS:
        print(json_text(getattr(json_schema, chosen.format.partition("-")[0])()), end="")
        return 0
    if chosen.format not in FORMATS:
        raise UnknownChoiceError("--format", chosen.format, FORMATS + SCHEMAS)
    if chosen.out is None:  # the standard output must have only the numbers
        console = Console(stderr=True)
    place = workplace()
    sweeps = read_all(place.root / (chosen.folder or default_folder(place, console)), costs(chosen, place.project))
    text = exported(chosen.format, sweeps)
    if chosen.out is None:
        print(text, end="")
    else:
        with writing_errors(chosen.out), writing(Path(chosen.out)) as file:
            file.write_text(text, encoding="utf-8")
        say(console, f"Written: {chosen.out}")
    say_notes(console, sweeps)
    return 0


@command(
    "bundle",
    "put records and their tables into one archive",
    FOLDER,
    flag("--out", metavar="FILE", required=True, help="the archive that is written, such as mine.zip"),
    description="On one machine the same records give the same bytes. `accelbench verify FILE` checks them.",
)
def bundle(chosen: Namespace, console: Console) -> int:
    """Writes the archive."""
    from accelbench.bundle import pack
    from accelbench.report.read import read_all

    place = workplace()
    folder = place.root / (chosen.folder or default_folder(place, console))
    out = Path(chosen.out)
    with writing_errors(chosen.out):
        num = pack(folder, read_all(folder, alone=True), out)
    say(console, f"Bundle: {out}, {num} files, {out.stat().st_size / 1e3:,.0f} kB")
    return 0


BUNDLE_HELP = "a file that `accelbench bundle` wrote"


@command(
    "verify",
    "check that a bundle is complete, and its tables are right",
    flag("bundle", metavar="BUNDLE", help=BUNDLE_HELP),
    description="No code in the bundle is run. Exit status 1: something in the bundle is wrong.",
)
def verify(chosen: Namespace, console: Console) -> int:
    """Checks the bundle without measuring, and prints the results."""
    from accelbench.bundle import NOT_SHOWN, verify
    from accelbench.schema.record import listed

    verified = verify(Path(chosen.bundle))
    say(console, *(f"ok      {line}" for line in verified.shown))
    say(console, *(f"WRONG   {line}" for line in listed(verified.problems)))
    say(console, "", "A bundle can't show:", *(f"- {line}" for line in NOT_SHOWN))
    return 1 if verified.problems else 0


@command(
    "replay",
    "measure the comparisons of a bundle again, on this machine",
    flag("--cells", metavar="N", type=int, default=5, help="maximum number of measured cells (5)"),
    BUDGET,
    flag("--trust", help="also measure cells that use code or files of this machine"),
    flag("bundle", metavar="BUNDLE", help=BUNDLE_HELP),
    usage="[flags] BUNDLE",
    description=REPLAY,
)
def replay(chosen: Namespace, console: Console) -> int:
    """Measures the claims."""
    budget_s = budget_in_s(chosen, "5m")
    if not 1 <= chosen.cells <= 100:
        raise UserError(f"--cells {chosen.cells}: should be from 1 to 100")
    from accelbench.isolation.hosts import Hosts
    from accelbench.replay import replay

    with Hosts() as hosts:
        return replay(chosen.bundle, chosen.cells, budget_s, console, hosts, trusts=chosen.trust)


@command(
    "merge",
    "bring the records of several folders or machines together",
    flag("--into", metavar="FOLDER", required=True, help="the folder that gets the records"),
    flag("sources", metavar="A", nargs="+", help="a folder of records"),
    usage="A [B ...] --into FOLDER",
)
def merge(chosen: Namespace, console: Console) -> int:
    """Copies the records."""
    from accelbench.schema.record import listed
    from accelbench.sweep.merge import merge

    done = merge(chosen.sources, Path(chosen.into))
    say(console, f"{done.num_new} records added to {chosen.into}, {done.num_same} were there already.")
    if done.problems:
        say(console, f"Not added: {len(done.problems)}", *(f"  {line}" for line in listed(done.problems)))
    return 1 if done.problems else 0
