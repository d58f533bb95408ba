"""`accelbench sync`: the records that MLflow missed."""

from argparse import Namespace

from accelbench.commands.command import Command, Context, flag
from accelbench.project import workplace
from accelbench.schema.record import listed


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.delivery import sync

    place = workplace()
    done = sync(place.store, place.record_folders, has_all=chosen.all)
    context.say(f"MLflow: {done.num_delivered} runs delivered, {done.num_already_there} already there.")
    if done.num_left_out:
        context.say(
            f"{done.num_left_out} more of sweeps with tracking=none: `accelbench sync --all` delivers them too."
        )
    if done.unreadable:
        context.say(f"Not readable: {len(done.unreadable)}", *(f"  {line}" for line in listed(done.unreadable)))
    return 0


COMMAND = Command(
    name="sync",
    summary="deliver the records that MLflow missed",
    run=_run,
    flags=(flag("--all", help="also deliver the records of sweeps with tracking=none"),),
)
