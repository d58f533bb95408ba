"""`accelbench merge`: brings the records of several folders together."""

import os
from argparse import Namespace
from pathlib import Path

from accelbench.commands.command import Command, Context
from accelbench.settings.parser import Parser


def _add_flags(parser: Parser) -> None:
    parser.add_argument("--into", metavar="FOLDER", required=True, help="the folder that gets the records")
    parser.add_argument(
        "sources", metavar="A", nargs="+", help="a folder of records, or an address such as s3://bucket/results"
    )


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.schema.record import listed
    from accelbench.schema.text import clean
    from accelbench.sweep.merge import merge

    done = merge(chosen.sources, Path(chosen.into))
    os.sync()  # once, since once for each of a hundred thousand files takes many minutes
    lines = [f"{done.num_new} records added to {chosen.into}, {done.num_same} were there already."]
    for what, found in (("Not added", done.conflicts), ("Not readable", done.problems)):
        if found:
            lines += [f"{what}: {len(found)}", *(f"  {line}" for line in listed(found))]
    context.console.print(clean("\n".join(lines)), markup=False, highlight=False, soft_wrap=True)
    return 1 if done.problems or done.conflicts else 0


COMMAND = Command(
    name="merge",
    summary="bring the records of several folders or machines together",
    add_flags=_add_flags,
    run=_run,
    usage="A [B ...] --into FOLDER",
)
