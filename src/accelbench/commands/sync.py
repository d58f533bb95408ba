"""`accelbench sync`: the records that MLflow missed."""

from argparse import Namespace

from accelbench.commands.command import Command, Context
from accelbench.project import workplace


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.delivery import sync

    place = workplace()
    context.say(str(sync(place.store, place.record_folders)))
    return 0


COMMAND = Command(name="sync", summary="deliver the records that MLflow missed", run=_run)
