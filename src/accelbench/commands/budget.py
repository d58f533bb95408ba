"""`--budget`: the time that a command may take. `search/base.py` and `race.py` end by it, for example."""

from argparse import Namespace

from accelbench.commands.command import flag
from accelbench.errors import UserError
from accelbench.presentation import seconds_of

BUDGET = flag("--budget", metavar="5m", help="the time that it may take, in s, m or h")


def budget_in_s(chosen: Namespace, default: str) -> float:
    """The time that --budget gives a command, in seconds. Raises UserError: it is no time."""
    text = default if chosen.budget is None else chosen.budget
    seconds = seconds_of(text)
    if seconds is None:
        raise UserError(f"--budget {text}: should be a time such as 90s, 5m or 2h")
    return seconds
