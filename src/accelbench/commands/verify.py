"""`accelbench verify`: what a bundle of records shows by itself."""

from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context, flag
from accelbench.schema.record import listed


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.bundle.archive import check
    from accelbench.bundle.verify import NOT_SHOWN, verify

    found = verify(Path(chosen.bundle))
    if chosen.key:
        check(Path(chosen.bundle), Path(chosen.key))
        found.shown.append(f"it is signed with the private key of {chosen.key}")
    context.say(*(f"ok      {line}" for line in found.shown))
    context.say(*(f"WRONG   {line}" for line in listed(found.problems)))
    context.say(*(f"note    {line}" for line in found.notes))
    context.say(
        "", "A bundle can't show:", *(f"- {line}" for line in NOT_SHOWN if not (chosen.key and "--key" in line))
    )
    return 1 if found.problems else 0


COMMAND = Command(
    name="verify",
    summary="say whether a bundle is whole, and its figures follow",
    run=_run,
    flags=(
        flag("--key", metavar="PUBLIC.pem", help="check its signature, in BUNDLE.sig, by this public key"),
        flag("bundle", metavar="BUNDLE", help="a file that `accelbench bundle` wrote"),
    ),
    usage="[--key PUBLIC.pem] BUNDLE",
    description="Nothing of the bundle is run. Exit status 1: something in it is wrong.",
)
