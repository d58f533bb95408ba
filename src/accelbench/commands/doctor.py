"""`accelbench doctor`: what this machine has, which cells would be skipped on it, and why."""

from argparse import Namespace

from accelbench import project
from accelbench.commands.command import Command, Context
from accelbench.settings.parser import Parser


def _add_flags(parser: Parser) -> None:
    parser.add_argument("--probe", action="store_true", help="measure each device's peak rates first")
    parser.add_argument("--all", action="store_true", help="show versions, data sets and what is skipped too")


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.doctor.show import show

    show(project.workplace(), context.console, probe=chosen.probe, whole=chosen.all)
    return 0


COMMAND = Command(
    name="doctor",
    summary="show what this machine has and can do, and what would be skipped",
    add_flags=_add_flags,
    run=_run,
)
