"""Checks the claims of a bundle on this machine: measures and compares both cells of a claim, like `compare --run`."""

import random
import time
from collections import Counter
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from pathlib import Path

from rich.console import Console

from accelbench.answers.cells import MIN_PROCESSES, Process, cells_of
from accelbench.answers.gaps import Gap, Word, gap
from accelbench.answers.jobs import jobs
from accelbench.bundle import verify
from accelbench.devices.cpu import usable_cores
from accelbench.errors import UserError
from accelbench.grid.own_code import check_own_code
from accelbench.grid.plan import skip_reason
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import counted, duration, say, significant
from accelbench.project import RUNS
from accelbench.schema.cell import SERVING, Cell, Library, Protocol
from accelbench.settings.compose import one_cell
from accelbench.sweep import run as sweep
from accelbench.sweep.interleaved import save_comparison, shuffled_runs

NO_SPEED = SERVING - {Protocol.offline} | {Protocol.target}
HOLDS, FAILS, CANT_TELL, NOT_MEASURED = "holds", "doesn't hold", "can't tell", "not measured"


def replay(
    name: str, num: int, budget_s: float, console: Console, hosts: Hosts, *, trusts: bool = False
) -> int:
    """Measures the claims of a bundle again, each in its own folder, and prints the findings.

    Args:
        num: maximum number of cells.
        budget_s: seconds for all claims. A claim is measured only if it is expected to end within this time.
        trusts: whether to measure cells that use code or files of this machine.

    Returns the exit status. It is 0 if at least one measured claim holds and none fails. Otherwise, it is 1.

    Raises UserError: there is no such bundle, or something in it is wrong.
    """
    ends_s = time.monotonic() + budget_s
    claims = _of_bundle(Path(name))
    if not claims:
        raise UserError(
            f"{name}: has no comparison that is sure, likely or the same. Run `accelbench compare --top FOLDER` with "
            "the folder that was bundled, and bundle it again"
        )
    folder = f"{RUNS}/{datetime.now():%Y-%m-%d_%H-%M-%S}-replay"
    findings = set[str]()
    measured = set[str]()
    left_out = Counter[str]()
    longer = ""  # why claims that take too long are left out
    for number, (what, claim) in enumerate(claims, 1):
        sides = (claim.first, claim.second)
        reasons = [_why_not(side.cell, trusts) for side in sides]
        wanted = measured | {side.settings_key for side in sides}
        if len(wanted) > num:
            reasons.append("needs a larger --cells")
        why = next(filter(None, reasons), None)
        if why is None and claim.cost_s > ends_s - time.monotonic():
            why = longer = (
                longer or f"needs a longer --budget: the first takes about {duration(claim.cost_s)}"
            )
        if why:
            left_out[why] += 1
            continue
        measured = wanted
        say(console, f"Measures {what}, {MIN_PROCESSES} times each, into {folder}/{number}")
        finding, here = _measured(claim, f"{folder}/{number}", console, hosts)
        findings.add(finding)
        say(console, f"{finding:<15} {what}: {_text(claim)} in the bundle, {here} on this machine")
    for why, num_claims in left_out.items():
        say(console, f"{NOT_MEASURED:<15} {counted(num_claims, 'claim')} ({why})")
    return 0 if HOLDS in findings and FAILS not in findings else 1


def _of_bundle(path: Path) -> list[tuple[str, Gap]]:
    """Returns the claims of a bundle, each with a text that names its cells. The first cell of a claim is the faster.

    First comes the largest gain of every job, then the second largest gain of every job, etc.
    """
    verified = verify(path)
    if verified.problems:
        raise UserError(f"{path}: wrong, so not replayed ({verified.problems[0]}): see `accelbench verify`")
    cells = sorted((cell for one in verified.sweeps for cell in one.cells), key=lambda cell: cell.started_at)
    claims = []
    for job in jobs(cells):
        # Cells of other batches.
        others = [] if job.others else [gap(job.fastest, other) for other in job.cells[1:]]
        decided = [gain for gain in [*job.gains, *others] if gain.word != Word.cant_tell]
        if not decided and job.lead and job.lead.word != Word.cant_tell:
            decided = [job.lead]  # of a batch size without a sure or likely gain
        for rank, gain in enumerate(decided):
            claim = gain if gain.ratio > 1 else gap(gain.second, gain.first)
            claims.append((rank, f"{job.what}: {job.text(claim.first)} over {job.text(claim.second)}", claim))
    claims.sort(key=itemgetter(0))
    return [(what, claim) for _, what, claim in claims]


def _why_not(cell: Cell, trusts: bool) -> str | None:
    """Returns the reason why a cell can't be measured here, or None."""
    if cell.protocol in NO_SPEED:
        return f"protocol={cell.protocol} has no speed to compare"
    if (cell.threads or 0) > usable_cores():
        return f"threads={cell.threads}: this machine has {usable_cores()} cores"
    named = [*cell.own_code.values(), *filter(None, [cell.python, cell.model.weights_file, cell.data.path])]
    named += [f"model.args.{name}" for name in cell.model.args if cell.model.library != Library.accelbench]
    if named and not trusts:
        return (
            f"{named[0]} is not in the bundle, so this machine may have another one: use --trust to allow it"
        )
    try:
        check_own_code([cell])
        return skip_reason(cell)
    except UserError as error:
        return str(error)


def _measured(claim: Gap, out: str, console: Console, hosts: Hosts) -> tuple[str, str]:
    """Measures and compares the two cells of a claim, like `compare --run`. The faster cell is B, the other is A.

    Returns the finding, and the ratio on this machine. If there is no ratio, returns the reason instead.
    """
    a, b = claim.second.cell, claim.first.cell
    runs = shuffled_runs(a, b, MIN_PROCESSES, random.getrandbits(32))
    options = replace(one_cell("tracking=none")[1], out=out)
    try:
        result = sweep.run(runs.cells, options, console, hosts=hosts, show=lambda result: None)
    except UserError as error:  # for example, data are missing here
        return CANT_TELL, str(error)
    save_comparison(runs, (a.label, b.label), result.records, result.folder)
    cells = [cell for cell in cells_of(map(Process.of, result.records)) if cell.speed]
    if len(cells) < 2:
        return CANT_TELL, "no ratio"
    here = gap(cells[1], cells[0])
    if here.word not in (Word.sure, Word.same):
        return CANT_TELL, _text(here)
    is_same = here.word == Word.same
    holds = is_same if claim.word == Word.same else here.ratio > 1 and not is_same
    return HOLDS if holds else FAILS, _text(here)


def _text(ratio: Gap) -> str:
    how_sure = ratio.word if ratio.low is None else f"{significant(ratio.low)} to {significant(ratio.high)}"
    return f"{significant(ratio.ratio)} times ({how_sure})"
