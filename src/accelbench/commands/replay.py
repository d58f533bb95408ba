"""`accelbench replay`: measures again here what a bundle, or a study, claims."""

from argparse import Namespace

from accelbench.commands.budget import BUDGET, budget_in_s
from accelbench.commands.command import Command, Context, flag
from accelbench.errors import UserError

DESCRIPTION = """\
Compares the two cells of each claim, as `compare --run` does: 5 fresh processes each, interleaved.
  holds         this setting is faster than that, or as fast, here too
  doesn't hold  it is slower, or as fast where the bundle has it faster
  can't tell    neither, with the reason
  not measured  this machine lacks what it takes, or you did not allow it
Exit status 1: something is not as claimed, or nothing could be told.
"""


def _run(chosen: Namespace, context: Context) -> int:
    budget_s = budget_in_s(chosen, "5m")
    if not 1 <= chosen.cells <= 100:
        raise UserError(f"--cells {chosen.cells}: should be from 1 to 100")
    from accelbench.bundle.replay import replay
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        return replay(chosen.bundle, chosen.cells, budget_s, context.console, hosts, trusts=chosen.trust)


COMMAND = Command(
    name="replay",
    summary="measure again here what a bundle claims",
    run=_run,
    flags=(
        flag("--cells", metavar="N", type=int, default=5, help="cells that are measured, at most (5)"),
        BUDGET,
        flag("--trust", help="also use code and files that cells name, and that are here"),
        flag("bundle", metavar="BUNDLE", help="a file that `accelbench bundle` wrote, or study:003"),
    ),
    usage="[flags] BUNDLE",
    description=DESCRIPTION,
)
