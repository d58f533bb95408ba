"""Finds the setting that reaches a target first, for `best --target` and `compare --run --target`."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rich.console import Console

from accelbench.commands.command import VERBOSE, flag, say
from accelbench.commands.shared import BUDGET, budget_in_s, names_of, show_sweep
from accelbench.errors import UserError
from accelbench.rules import Rule

FLAGS = (
    flag("--target", metavar="0.97", type=float, help="find which setting is trained to this accuracy first"),
    flag("--seeds", metavar="N", type=int, help="with --target: trainings of each setting (6)"),
    BUDGET,
)
RULES = (
    Rule("target target>1", "--target {target}: should be an accuracy above 0 and at most 1, such as 0.97"),
    Rule("target target<=0", "--target {target}: should be an accuracy above 0 and at most 1, such as 0.97"),
    Rule("seeds !target", "--seeds: needs --target"),
    Rule("seeds<1", "--seeds: should be at least 1"),
)
DECIDED = {"protocol", "target.accuracy", "repeat", "repeats"}  # settings that these flags decide


def run(sides: Sequence[str], chosen: Namespace, console: Console) -> int:
    """Trains all settings, interleaved by seed, and prints which setting reaches the target first.

    Returns the exit status. It is 1 if no setting reaches the target, or if a training failed. Otherwise, it is 0. If
    there are two sides and this machine can't run one of them, nothing is trained, and the status is 0.

    Raises UserError: the settings can't be trained to a target.
    """
    from accelbench.isolation.hosts import Hosts

    budget_s = budget_in_s(chosen, "10m")
    with Hosts() as hosts:
        from accelbench.answers.time_to_goal import MIN_SEEDS, target_answers
        from accelbench.report.read import read
        from accelbench.settings.compose import cells_of, compose, words_in
        from accelbench.sweep import run as sweep
        from accelbench.sweep.interleaved import why_pointless, with_seeds

        composed = []
        for side in sides:
            words = words_in(side)
            if refused := DECIDED & names_of(words):
                raise UserError(f"{min(refused)}: is decided by --target and --seeds, so leave it out")
            if chosen.verbose:
                words.append(VERBOSE)
            composed.append(compose(["-m", "protocol=target", f"target.accuracy={chosen.target}", *words]))
        cells, options = cells_of([run for side in composed for run in side])
        if len(sides) > 1 and (why := why_pointless([cells_of(side)[0] for side in composed])):
            say(console, why)
            return 0
        options = replace(options, ends_after_s=budget_s)
        planned = with_seeds(cells, MIN_SEEDS if chosen.seeds is None else chosen.seeds)
        result = sweep.run(planned, options, console, hosts=hosts, show=partial(show_sweep, options, console))
    result.check_request()
    has_arrived = any(answer.fastest for answer in target_answers(read(result.folder).cells))
    return 1 if result.num_unexpected or not has_arrived else 0
