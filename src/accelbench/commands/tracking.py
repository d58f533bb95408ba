"""`accelbench sync` and `ui`: the records that MLflow missed, and MLflow's pages."""

from argparse import Namespace

from accelbench.commands.command import Command, Context, flag
from accelbench.project import workplace
from accelbench.schema.record import listed
from accelbench.sinks.location import PORT


def _sync(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.delivery import sync

    place = workplace()
    done = sync(place.store, place.record_folders)
    context.say(f"MLflow: {done.num_delivered} runs delivered, {done.num_already_there} already there.")
    if done.unreadable:
        context.say(f"Not readable: {len(done.unreadable)}", *(f"  {line}" for line in listed(done.unreadable)))
    return 0


def _ui(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.ui import serve

    return serve(workplace().store, chosen.port, open_browser=not chosen.no_browser)


SYNC = Command(name="sync", summary="deliver the records that MLflow missed", run=_sync)
UI = Command(
    name="ui",
    summary="open MLflow on the saved view",
    run=_ui,
    flags=(
        flag("--port", metavar="N", type=int, default=PORT, help=f"where MLflow listens ({PORT})"),
        flag("--no-browser", help="print the address only"),
    ),
)
