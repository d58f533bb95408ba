"""`accelbench sync`: the records that MLflow missed."""

from argparse import Namespace

from accelbench.commands.command import Command, Context
from accelbench.project import workplace
from accelbench.schema.record import listed


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.delivery import sync

    place = workplace()
    done = sync(place.store, place.record_folders)
    context.say(f"MLflow: {done.num_delivered} runs delivered, {done.num_already_there} already there.")
    if done.unreadable:
        context.say(f"Not readable: {len(done.unreadable)}", *(f"  {line}" for line in listed(done.unreadable)))
    return 0


COMMAND = Command(name="sync", summary="deliver the records that MLflow missed", run=_run)
