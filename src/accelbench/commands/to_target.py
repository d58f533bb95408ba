"""What `best --target` and `compare --run --target` share: which setting reaches a target first."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from accelbench.commands.budget import BUDGET, budget_in_s
from accelbench.commands.command import VERBOSE, Context, flag
from accelbench.errors import UserError
from accelbench.project import shown

FLAGS = (
    flag("--target", metavar="0.97", type=float, help="train to this accuracy: what gets there first"),
    flag("--seeds", metavar="N", type=int, help="with --target: trainings of each setting (6)"),
    BUDGET,
)
DECIDED = {"protocol", "target.accuracy", "repeat", "repeats"}  # settings that the flags give
DEFAULT_BUDGET = "10m"


def check(chosen: Namespace) -> None:
    """Refuses --seeds without --target, and what is out of range. Raises UserError."""
    if chosen.target is not None and not 0 < chosen.target <= 1:
        raise UserError(f"--target {chosen.target:g}: should be an accuracy above 0 and at most 1, such as 0.97")
    if chosen.seeds is not None and chosen.target is None:
        raise UserError("--seeds: goes with --target")
    if chosen.seeds is not None and chosen.seeds < 1:
        raise UserError("--seeds: should be at least 1")


def run(sides: Sequence[str], chosen: Namespace, context: Context) -> int:
    """Trains the settings that the words of each side describe, interleaved by seed, and says which is there first.

    Returns the exit status: 1 if none is there, or a training failed. Raises UserError: settings can't be trained to a
    target.
    """
    from accelbench.isolation.hosts import Hosts

    budget_s = budget_in_s(chosen, DEFAULT_BUDGET)
    target = ["protocol=target", f"target.accuracy={chosen.target}"]
    with Hosts() as hosts:
        from accelbench.answers.time_to_goal import MIN_SEEDS, target_answers
        from accelbench.report.read import read
        from accelbench.settings.compose import cells_of, compose, words_in
        from accelbench.sweep import run as sweep
        from accelbench.sweep import terminal
        from accelbench.sweep.interleaved import why_pointless, with_seeds

        given, verbose = [words_in(words) for words in sides], [VERBOSE] * chosen.verbose
        if refused := DECIDED & {word.partition("=")[0] for words in given for word in words}:
            raise UserError(f"{min(refused)}: --target and --seeds decide it: leave it out")
        composed = [compose(["-m", *target, *words, *verbose]) for words in given]
        cells, options = cells_of([one for side in composed for one in side])
        of_sides = [cells_of(side)[0] for side in composed]
        if len(sides) > 1 and (why := why_pointless(of_sides, options, context.console)):
            context.say(why)
            return 0
        options = replace(options, ends_after_s=budget_s)
        planned = with_seeds(cells, MIN_SEEDS if chosen.seeds is None else chosen.seeds)

        def show(result: sweep.SweepResult) -> None:
            terminal.conclude(result, context.console)
            terminal.show_answer(result.records, shown(result.folder), context.console, options.words)

        result = sweep.run(planned, options, context.console, hosts=hosts, show=show)
    result.check_request(is_shown=True)
    has_arrived = any(each.fastest for each in target_answers(read(result.folder).cells))
    return 1 if result.num_unexpected or not has_arrived else 0
