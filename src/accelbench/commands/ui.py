"""`accelbench ui`: MLflow's pages."""

from argparse import Namespace

from accelbench.commands.command import Command, Context, flag
from accelbench.project import workplace
from accelbench.sinks.location import PORT


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.ui import serve

    return serve(workplace().store, chosen.port, open_browser=not chosen.no_browser)


COMMAND = Command(
    name="ui",
    summary="open MLflow on the saved view",
    run=_run,
    flags=(
        flag("--port", metavar="N", type=int, default=PORT, help=f"where MLflow listens ({PORT})"),
        flag("--no-browser", help="print the address only"),
    ),
)
