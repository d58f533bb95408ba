"""`accelbench selfcheck`: what this machine's verdicts are worth."""

import math
from argparse import Namespace

from accelbench.commands.command import Command, Context
from accelbench.errors import UserError
from accelbench.settings.parser import Parser

MAX_MINUTES = 120


def _add_flags(parser: Parser) -> None:
    parser.add_argument("--minutes", metavar="N", default="10", help="the time that it may take (10)")


def _run(chosen: Namespace, context: Context) -> int:
    minutes = _minutes(chosen.minutes)
    from accelbench.sweep import early

    with early.hosts([]) as hosts:
        # Imported while the host starts.
        from accelbench.doctor.selfcheck import selfcheck

        return selfcheck(60 * minutes, context.console, hosts)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError as error:
        raise UserError(f"--minutes {text}: should be a number") from error
    if not 0 < minutes <= MAX_MINUTES or math.isnan(minutes):
        raise UserError(f"--minutes {text}: should be above 0, and at most {MAX_MINUTES}")
    return minutes


COMMAND = Command(
    name="selfcheck",
    summary="measure how small a difference this machine can tell",
    add_flags=_add_flags,
    run=_run,
    description="Runs small networks against themselves, and against ones that are 5 % slower, in turns.",
)
