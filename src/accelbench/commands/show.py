"""`accelbench report` and `view`: the page of a folder of records, and its pictures one by one."""

import os
import sys
import webbrowser
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from accelbench.commands.command import command, say
from accelbench.commands.shared import FOLDER, PRICE, check_devices, costs, default_folder, is_results, report_folder
from accelbench.errors import UserError
from accelbench.project import Workplace, workplace

if TYPE_CHECKING:
    from accelbench.judging.costs import Cost
    from accelbench.report.read import Sweep
    from accelbench.schema.vocab import Device


@command(
    "report",
    "build the report of results/, or of a folder under runs/",
    FOLDER,
    PRICE,
    description="The report of results/ is written to report/, any other to report/ in its folder: see index.html.",
)
def report(chosen: Namespace, console: Console) -> int:
    """Builds the report."""
    place = workplace()
    prices = costs(chosen, place.project)
    name = chosen.folder or default_folder(place, console)
    if is_results(place, name) and chosen.price_per_hour is not None:
        raise UserError("--price-per-hour: not for results/, whose report DVC keeps: set costs: in params.yaml")
    folders = place.root / name, report_folder(place, name)
    build_report(place, *folders, prices, partial(say, console), lambda sweeps: check_devices(chosen, console, sweeps))
    return 0


def build_report(
    place: Workplace,
    results: Path,
    out: Path,
    prices: "Mapping[Device, Cost]",
    say: Callable[[str], object],
    check: "Callable[[Sequence[Sweep]], object]" = len,
) -> Path:
    """Builds the report of the records in `results`, and adds it to their runs in MLflow; returns the page's path."""
    from accelbench.report.build import build
    from accelbench.settings.params import for_report
    from accelbench.sinks.delivery import relate

    read: list[Sweep] = []

    def keep(sweeps: "Sequence[Sweep]") -> None:
        check(sweeps)
        read.extend(sweeps)

    page = build(results, out, say=say, check=keep, **for_report(place, results) | {"costs": prices})
    say(f"Report: {page}")
    if loss := relate(place.store, [sweep.processes for sweep in read], page):
        say(loss)
    return page


def address(page: Path) -> str:
    """That of the viewer of a report's page."""
    return f"{page.resolve().as_uri()}#viewer"


def open_viewer(page: Path) -> bool:
    """Opens the viewer of a report's page; returns whether there was a display and a browser."""
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
