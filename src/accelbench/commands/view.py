"""`accelbench view`: the report's pictures, one by one, in the browser."""

import os
import sys
import webbrowser
from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context, flag
from accelbench.commands.records import FOLDER, default_folder, report_folder
from accelbench.errors import UserError
from accelbench.project import workplace


def address(page: Path) -> str:
    """That of the viewer of a report's page."""
    return f"{page.resolve().as_uri()}#viewer"


def open_viewer(page: Path) -> bool:
    """Opens the viewer of a report's page; returns whether there was a display and a browser."""
    has_display = sys.platform != "linux" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    return has_display and webbrowser.open(address(page))


def _run(chosen: Namespace, context: Context) -> int:
    place = workplace()
    page = report_folder(place, chosen.folder or default_folder(place, context)) / "index.html"
    if not page.is_file():
        raise UserError(f"{page}: no report there: accelbench report builds it")
    context.say(f"Viewer: {address(page)} (left or p, right or n, Escape or q)")
    if not open_viewer(page):
        context.say("(no browser found on this machine: open the address in yours)")
    return 0


COMMAND = Command(
    name="view",
    summary="show the report's pictures one by one, in the browser",
    run=_run,
    flags=(flag("folder", nargs="?", help=FOLDER),),
)
