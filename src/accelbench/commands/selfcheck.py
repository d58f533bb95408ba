"""`accelbench selfcheck`: how small a difference this machine can tell."""

from argparse import Namespace

from accelbench.commands.budget import BUDGET, budget_in_s
from accelbench.commands.command import Command, Context
from accelbench.errors import UserError

MAX_MINUTES = 120


def _run(chosen: Namespace, context: Context) -> int:
    budget_s = budget_in_s(chosen, "10m")
    if budget_s > 60 * MAX_MINUTES:
        raise UserError(f"--budget {chosen.budget}: should be at most {MAX_MINUTES}m")
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.doctor.selfcheck import selfcheck

        return selfcheck(budget_s, context.console, hosts)


COMMAND = Command(
    name="selfcheck",
    summary="measure how small a difference this machine can tell",
    run=_run,
    flags=(BUDGET,),
    description="Runs two small networks against themselves, interleaved (10m).",
)
