"""`accelbench ui`: serves MLflow and opens it on the saved view."""

from argparse import Namespace

from accelbench import project
from accelbench.commands.command import Command, Context
from accelbench.settings.parser import Parser
from accelbench.sinks.location import PORT


def _add_flags(parser: Parser) -> None:
    parser.add_argument("--port", metavar="N", type=int, default=PORT, help=f"where MLflow listens ({PORT})")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.ui import serve

    return serve(project.workplace().store, chosen.port, open_browser=not chosen.no_browser)


COMMAND = Command(name="ui", summary="open MLflow on the saved view", add_flags=_add_flags, run=_run)
