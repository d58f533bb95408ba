"""`accelbench bisect`: which commit made a cell slower."""

from argparse import Namespace

from accelbench.commands.budget import BUDGET, budget_in_s
from accelbench.commands.command import VERBOSE, Command, Context, flag
from accelbench.errors import UserError

DESCRIPTION = """\
Searches the commits between GOOD and BAD by `git bisect`. It measures each in a worktree, in processes interleaved \
with GOOD's. A commit is slower, or not, once its 95 % interval lies on one side of half of the slow-down; else it \
gets more processes. A commit that does not run is skipped. Only what is committed counts.
The same command goes on from the records of one that was stopped.
"""


def _run(chosen: Namespace, context: Context) -> int:
    budget_s = budget_in_s(chosen, "15m")
    if wrong := [word for word in chosen.words if word.startswith("-")]:
        raise UserError(f"{wrong[0]}: flags of bisect go before --")
    from accelbench.lifeline import ending_as_ctrl_c
    from accelbench.search.bisect import Bisection
    from accelbench.search.worktrees import commits

    words = chosen.words + [VERBOSE] * chosen.verbose
    with ending_as_ctrl_c():  # else it would leave worktrees
        return Bisection(commits(chosen.good, chosen.bad), words, budget_s, context.console).run()


COMMAND = Command(
    name="bisect",
    summary="find the commit that made a cell slower",
    run=_run,
    flags=(
        BUDGET,
        flag("-v", "--verbose", help="show what the cell's libraries print"),
        flag("good", metavar="GOOD", help="a commit that is fast, an ancestor of BAD"),
        flag("bad", metavar="BAD", help="a commit that is slower, such as HEAD"),
        flag("words", metavar="name=value", nargs="*", help="the cell, with model=custom model.target=pkg.Net"),
    ),
    usage="[--budget 15m] [-v] GOOD BAD -- name=value ...",
    description=DESCRIPTION,
    takes_settings=True,
)
