"""`accelbench report`, `view` and `figure`: a page about records, its viewer, and a picture for a paper."""

import os
import sys
import webbrowser
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from accelbench.commands.command import (
    FOLDER,
    PRICE,
    command,
    costs,
    default_folder,
    flag,
    is_results,
    report_folder,
    say,
    say_notes,
)
from accelbench.errors import UserError, writing_errors
from accelbench.project import Workplace, shown, workplace

if TYPE_CHECKING:
    from accelbench.judging.costs import Cost
    from accelbench.schema.vocab import Device


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
        raise UserError("--price-per-hour: can't be used for the report of results/. Set `costs` in params.yaml")
    build_report(place, place.root / name, report_folder(place, name), prices, partial(say, console))
    return 0


def build_report(
    place: Workplace,
    results: Path,
    out: Path,
    prices: "Mapping[Device, Cost]",
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
    flag("--out", metavar="speedup.svg", type=Path, required=True, help="file that is replaced: .svg, .pdf or .png"),
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
