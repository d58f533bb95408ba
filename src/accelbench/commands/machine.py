"""The commands about this machine: `doctor` says what it has and can do, `selfcheck` what its verdicts are worth."""

from argparse import Namespace

from accelbench.commands.command import Command, Context, flag
from accelbench.errors import UserError
from accelbench.presentation import seconds_of
from accelbench.project import workplace

MAX_MINUTES = 120  # of a selfcheck


def _doctor(chosen: Namespace, context: Context) -> int:
    from accelbench.doctor.show import show

    show(workplace(), context.console, probe=chosen.probe, whole=chosen.all)
    return 0


def _selfcheck(chosen: Namespace, context: Context) -> int:
    if chosen.budget and chosen.minutes:
        raise UserError("--minutes: says what --budget says: leave one out")
    name, given = ("--minutes", f"{chosen.minutes}m") if chosen.minutes else ("--budget", chosen.budget or "10m")
    budget_s = seconds_of(given)
    if budget_s is None or budget_s > 60 * MAX_MINUTES:
        raise UserError(f"{name} {chosen.minutes or given}: should be a time such as 90s, 5m or 2h, at most 2h")
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.doctor.selfcheck import selfcheck

        return selfcheck(budget_s, context.console, hosts)


DOCTOR = Command(
    name="doctor",
    summary="show what this machine has and can do, and what would be skipped",
    run=_doctor,
    flags=(
        flag("--probe", help="measure each device's peak rates first"),
        flag("--all", help="show versions, data sets and what is skipped too"),
    ),
)
SELFCHECK = Command(
    name="selfcheck",
    summary="measure how small a difference this machine can tell",
    run=_selfcheck,
    flags=(
        flag("--budget", metavar="10m", help="the time that it may take (10m); in s, m or h"),
        flag("--minutes", metavar="N", help="the same in minutes"),
    ),
    description="Runs small networks against themselves, and against ones that are 5 % slower, interleaved.",
)
