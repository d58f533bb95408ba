"""Commands that show and share records, and use records of others.

`accelbench report`, `view`, `figure`, `export`, `bundle`, `verify`, `replay` and `merge`.
"""

import os
import sys
import webbrowser
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

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
    is_results,
    report_folder,
    say,
    say_notes,
)
from accelbench.errors import UnknownChoiceError, UserError, writing_errors
from accelbench.project import Workplace, shown, workplace


@command(
    "report",
    "build the report of results/, or of a folder under runs/",
    FOLDER,
    PRICE,
    description="The report of results/ is in report/. That of another folder is in its own report/. Open index.html.",
)
def report(chosen: Namespace, console: Console) -> int:
    """Builds the report."""
    place = workplace()
    prices = costs(chosen, place.project)
    name = chosen.folder or default_folder(place, console)
    if is_results(place, name) and chosen.price_per_hour is not None:
        raise UserError(
            "--price-per-hour: can't be used for the report of results/. Set `costs` in params.yaml"
        )
    build_report(place, place.root / name, report_folder(place, name), prices, partial(say, console))
    return 0


def build_report(
    place: Workplace,
    results: Path,
    out: Path,
    prices: Mapping[Any, Any],
    say: Callable[[str], object],
) -> Path:
    """Builds the report on the records in `results`, and returns the page's path."""
    from accelbench.report.build import build
    from accelbench.report.read import read_all
    from accelbench.settings import params

    sweeps = read_all(results, prices, params.wanted_suites(place.project, results))
    page = build(sweeps, results, out, prices, say, params.report_extension(place.project))
    say(f"Report: {page}")
    return page


def address(page: Path) -> str:
    """The URL of the viewer in a report's page."""
    return f"{page.resolve().as_uri()}#viewer"


def open_viewer(page: Path) -> bool:
    """Opens the viewer of a report's page. Returns false if there is no display or no browser."""
    has_display = sys.platform != "linux" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    return has_display and webbrowser.open(address(page))


@command("view", "show the report's pictures one by one, in the browser", FOLDER)
def view(chosen: Namespace, console: Console) -> int:
    """Opens the viewer."""
    place = workplace()
    page = report_folder(place, chosen.folder or default_folder(place, console)) / "index.html"
    if not page.is_file():
        raise UserError(f"{page}: no report there: accelbench report builds it")
    say(console, f"Viewer: {address(page)} (left or p, right or n, Escape or q)")
    if not open_viewer(page):
        say(console, "(no browser found on this machine: open the address in yours)")
    return 0


@command(
    "figure",
    "draw a chart for a paper, such as how much each job gains",
    FOLDER,
    flag(
        "--out",
        metavar="speedup.svg",
        type=Path,
        required=True,
        help="file that is replaced: .svg, .pdf or .png",
    ),
    flag(
        "--question",
        metavar="WHAT",
        help="draw another chart of the report instead: device, precision, batch, engine, options, time, limit, "
        "requests or target",
    ),
    flag("--width", metavar="7", type=float, default=7.0, help="inches (7)"),
)
def figure(chosen: Namespace, console: Console) -> int:
    """Draws the chart."""
    from accelbench.answers.jobs import jobs
    from accelbench.report import figure as pictures
    from accelbench.report.questions import questions
    from accelbench.report.read import cells_in, read_all
    from accelbench.schema.serialize import grouped
    from accelbench.settings import params

    pictures.format_of(chosen.out)
    if not pictures.LEAST_WIDTH <= chosen.width <= pictures.MOST_WIDTH:
        raise UserError(
            f"--width {chosen.width:g}: should be {pictures.LEAST_WIDTH:g} to {pictures.MOST_WIDTH:g} inches"
        )
    question = chosen.question
    place = workplace()
    folder = place.root / (chosen.folder or default_folder(place, console))
    sweeps = read_all(folder, params.load(place.project).costs, params.wanted_suites(place.project, folder))
    say_notes(console, sweeps)
    cells = cells_in(sweeps)
    every = jobs(cells)
    gaining = [job for job in every if job.gains]
    asked = grouped((one for one in questions(cells, every) if one.lines), lambda one: one.name)
    if question is None and gaining:
        draw = partial(pictures.of_jobs, gaining)
    elif question in asked:
        draw = partial(pictures.of_question, asked[question])
    else:
        others = f"--question {' or '.join(asked)}" if asked else "none"
        raise UserError(f"{shown(folder)}: these records have no such chart. Choose from: {others}")
    with writing_errors(chosen.out):
        pictures.save(chosen.out, chosen.width, draw)
    say(console, f"Figure: {shown(chosen.out)}")
    return 0


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
    sweeps = read_all(
        place.root / (chosen.folder or default_folder(place, console)), costs(chosen, place.project)
    )
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
