"""`accelbench merge`: the records of several folders or machines, in one."""

import os
from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context, flag
from accelbench.schema.record import listed


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.sweep.merge import merge

    done = merge(chosen.sources, Path(chosen.into))
    os.sync()  # once, since once for each of a hundred thousand files takes many minutes
    context.say(f"{done.num_new} records added to {chosen.into}, {done.num_same} were there already.")
    for what, found in (("Not added", done.conflicts), ("Not readable", done.problems)):
        if found:
            context.say(f"{what}: {len(found)}", *(f"  {line}" for line in listed(found)))
    return 1 if done.problems or done.conflicts else 0


COMMAND = Command(
    name="merge",
    summary="bring the records of several folders or machines together",
    run=_run,
    flags=(
        flag("--into", metavar="FOLDER", required=True, help="the folder that gets the records"),
        flag("sources", metavar="A", nargs="+", help="a folder of records, or an address such as s3://bucket/results"),
    ),
    usage="A [B ...] --into FOLDER",
)
