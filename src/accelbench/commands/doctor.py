"""`accelbench doctor`: what this machine has and can do."""

from argparse import Namespace

from accelbench.commands.command import Command, Context, flag
from accelbench.project import workplace


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.doctor.show import show

    show(workplace(), context.console, probe=chosen.probe, whole=chosen.all)
    return 0


COMMAND = Command(
    name="doctor",
    summary="show what this machine has and can do, and what would be skipped",
    run=_run,
    flags=(
        flag("--probe", help="measure each device's peak rates first"),
        flag("--all", help="show versions, data sets and what is skipped too"),
    ),
)
