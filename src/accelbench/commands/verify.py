"""`accelbench verify`: what a bundle of records shows by itself."""

from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context, flag
from accelbench.schema.record import listed


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.bundle.verify import NOT_SHOWN, verify

    found = verify(Path(chosen.bundle))
    context.say(*(f"ok      {line}" for line in found.shown))
    context.say(*(f"WRONG   {line}" for line in listed(found.problems)))
    context.say(*(f"note    {line}" for line in found.notes))
    context.say("", "A bundle can't show:", *(f"- {line}" for line in NOT_SHOWN))
    return 1 if found.problems else 0


COMMAND = Command(
    name="verify",
    summary="say whether a bundle is whole, and its figures follow",
    run=_run,
    flags=(flag("bundle", metavar="BUNDLE", help="a file that `accelbench bundle` wrote"),),
    description="Nothing of the bundle is run. Exit status 1: something in it is wrong.",
)
