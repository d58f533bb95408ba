"""`accelbench doctor` and `selfcheck`: this machine's devices, and the smallest difference that it can detect."""

from argparse import Namespace

from rich.console import Console

from accelbench.commands.command import command, flag
from accelbench.commands.shared import BUDGET, budget_in_s
from accelbench.errors import UserError
from accelbench.project import workplace

MAX_MINUTES = 120


@command(
    "doctor",
    "show what this machine has and can do, and what would be skipped",
    flag("--probe", help="measure each device's peak rates first"),
    flag("--all", help="also show versions, data sets and what is skipped"),
)
def doctor(chosen: Namespace, console: Console) -> int:
    """Shows the machine."""
    from accelbench.doctor import show

    show(workplace(), console, probe=chosen.probe, whole=chosen.all)
    return 0


@command(
    "selfcheck",
    "measure how small a difference this machine can tell",
    BUDGET,
    description="Compares a small network with itself, in ten interleaved rounds (at most 10m).",
)
def selfcheck(chosen: Namespace, console: Console) -> int:
    """Compares equal cells."""
    budget_s = budget_in_s(chosen, "10m")
    if budget_s > 60 * MAX_MINUTES:
        raise UserError(f"--budget {chosen.budget}: should be at most {MAX_MINUTES}m")
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.doctor import selfcheck

        return selfcheck(budget_s, console, hosts)
