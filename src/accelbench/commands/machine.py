"""`accelbench doctor` and `selfcheck`: what this machine has and can do, and how small a difference it can tell."""

from argparse import Namespace

from accelbench.commands.command import BUDGET, Command, Context, budget_in_s, flag
from accelbench.errors import UserError
from accelbench.project import workplace

MAX_MINUTES = 120  # of a selfcheck


def _doctor(chosen: Namespace, context: Context) -> int:
    from accelbench.doctor.show import show

    show(workplace(), context.console, probe=chosen.probe, whole=chosen.all)
    return 0


def _selfcheck(chosen: Namespace, context: Context) -> int:
    budget_s = budget_in_s(chosen, "10m")
    if budget_s > 60 * MAX_MINUTES:
        raise UserError(f"--budget {chosen.budget}: should be at most {MAX_MINUTES}m")
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
    flags=(BUDGET,),
    description="Runs small networks against themselves, and against ones that are 5 % slower, interleaved (10m).",
)
