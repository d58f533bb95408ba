"""`accelbench compare`: whether B is as fast as A."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from accelbench import project
from accelbench.commands import to_target
from accelbench.commands.command import VERBOSE, Command, Context, flag
from accelbench.errors import UserError

DESCRIPTION = """\
Pairs cells that are equal, or equal but for the settings in which A and B differ throughout. \
The 95 % interval of B's samples/s over A's, less 1, is a bootstrap over 5 fresh processes of each, \
interleaved (A and B alternate, so that drift affects both alike).
  same        the interval lies within the margin
  faster      else, if it lies above 0; slower: else, if it lies below 0
  can't tell  else; of fewer than 5 processes; on one machine, not interleaved
"""


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.compare import comparison, record_sets
    from accelbench.sweep import interleaved

    names = [chosen.first, *chosen.others]
    to_target.check(chosen)
    if (chosen.target is not None or chosen.budget is not None) and not (chosen.run and chosen.target):
        raise UserError("--target, --budget: go together with --run: both sides are trained to the target")
    anyway = chosen.anyway or chosen.run or len(names) == 1
    terms = comparison.terms(chosen.margin, chosen.fail_if, anyway=anyway, may_pass_undecided=chosen.anyway)
    if len(names) not in ((2,) if chosen.run else (1, 2)):
        raise UserError(f"compare: takes A and B, {len(names)} given; words with spaces go in quotes")
    if not chosen.run and (chosen.verbose or chosen.repeats is not None):
        raise UserError(f"{'-v' if chosen.verbose else '--repeats'}: goes with --run; records are not measured again")
    place = project.workplace()
    if chosen.target is not None:
        if refused := [flag for flag in ("repeats", "margin", "fail_if") if getattr(chosen, flag) is not None]:
            raise UserError(f"--{refused[0].replace('_', '-')}: goes without --target; --seeds says how many trainings")
        return to_target.run(names, chosen, context)
    if not chosen.run:
        kept = interleaved.load_comparison(Path(names[0])) if len(names) == 1 else None
        first, second = kept or (record_sets.find(name, place.root, place.records) for name in names)
        return comparison.answer(first, second, terms, context.console)
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.settings.compose import one_cell
        from accelbench.sweep import run as sweep

        asked = [one_cell(name + f" {VERBOSE}" * chosen.verbose) for name in names]
        runs, options = interleaved.plan_runs(asked[0], asked[1], chosen.repeats, place.root)
        if why := interleaved.why_pointless([[cell] for cell, _ in asked], options, context.console):
            context.say(why)
            comparison.check_decided([], terms)
            return 0
        result = sweep.run(runs.cells, options, context.console, hosts=hosts)
    if all(record.sweep_id != result.sweep_id for record in result.records):
        have = f"all {len(runs.cells)} processes have their records in {project.shown(result.folder)}"
        context.say(f"{have}: nothing is measured; name another out= to measure again")
    interleaved.save_comparison(runs, (names[0], names[1]), result.records, result.folder)
    result.check_request(is_shown=True)
    if result.num_unexpected:  # which is the exit status
        terms = replace(terms, max_slower=None)
    status = comparison.answer(*interleaved.load_comparison(result.folder), terms, context.console)
    return 1 if result.num_unexpected else status


COMMAND = Command(
    name="compare",
    summary="say whether B is as fast as A: same, faster, slower or can't tell",
    run=_run,
    flags=(
        flag("--run", help="A and B are cells, each in quotes: measure them"),
        flag("--repeats", metavar="N", type=int, help="with --run: fresh processes of each cell (5)"),
        *to_target.FLAGS,
        flag("--margin", metavar="2%", help="differences that count as the same (2%%)"),
        flag(
            "--fail-if",
            metavar="slower:5%",
            help="exit 1 if B's interval lies below -5 %%, 2 if undecided",
        ),
        flag(
            "--anyway",
            help="compare even if the work differs or was not interleaved; undecided passes",
        ),
        flag("-v", "--verbose", help="with --run: show what the cells' libraries print"),
        flag(
            "first",
            metavar="A",
            help="a folder of records, a suite, a record's file, or FOLDER@WORD: the records there "
            "(default: results) of this git revision, branch, CPU, GPU or TPU",
        ),
        flag("others", metavar="B", nargs="*", help="the same; not needed if A is the folder of a --run"),
    ),
    usage="[flags] A [B]\n       accelbench compare --run [flags] A B",
    description=DESCRIPTION,
)
