"""Measures again what others claim: fresh processes of the cells, interleaved, within a time.

How many times as fast one setting is as another is compared on any machine; the speeds themselves on an equal one.
"""

import random
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from accelbench.answers.cells import MeasuredCell, Word, gap
from accelbench.answers.sentences import answers
from accelbench.answers.words import speed_text
from accelbench.bundle.verify import verify
from accelbench.compare.commits import MOST
from accelbench.compare.matching import flat
from accelbench.compare.sureness import BESIDE, LIKELY_RATIO, MIN_PROCESSES, Judgement
from accelbench.errors import UserError, writing_errors
from accelbench.grid.fingerprint import fingerprint
from accelbench.grid.own_code import check_own_code
from accelbench.grid.plan import skip_reason
from accelbench.isolation.hosts import Hosts
from accelbench.presentation import and_more, counted, duration, say, significant
from accelbench.project import PLAN, REPLAY, RUNS, shown, workplace
from accelbench.report import extension
from accelbench.report.read import read
from accelbench.schema.cell import Cell, KerasSettings
from accelbench.schema.record import hardware
from accelbench.schema.serialize import grouped, write_json
from accelbench.schema.vocab import SERVING, Library, Protocol
from accelbench.settings.compose import one_cell
from accelbench.settings.params import report_extension
from accelbench.sweep import run as sweep

STUDY = "study:"
# Shares of the budget: after which no process is begun; that one may take, and the half of it for a quiet machine.
LAST, LONGEST, QUIET = 0.75, 0.1, 0.5
NO_SPEED = SERVING - {Protocol.offline} | {Protocol.target}
OTHER_DATA = "the data here are others, such as a stand-in"
NOT_MEASURED = "not measured"
MAX_NAMED = 3  # claims that are not measured for one reason


class Found(StrEnum):
    """What became of a claim; `less` and `more`: it holds, and the amount is surely another."""

    holds = "holds"
    less = "holds, by less"
    more = "holds, by more"
    same = "same"
    fails = "doesn't hold"
    faster = "faster"
    slower = "slower"
    cant_tell = "can't tell"


class Claim(NamedTuple):
    """That the first of two cells is so many times as fast as the second; of one cell twice: its speed."""

    what: str
    cells: tuple[Cell, Cell]
    judged: Judgement


class Finding(NamedTuple):
    """A claim beside what was measured here, in words."""

    found: Found
    what: str
    there: str
    here: str = NOT_MEASURED
    why: str = ""

    @property
    def is_undecided(self) -> bool:
        """Whether more processes may tell."""
        return self.found == Found.cant_tell and self.here != NOT_MEASURED and self.why != OTHER_DATA


def key_of(cell: Cell) -> str:
    """Equal for all processes of a cell and a seed."""
    return replace(cell, repeat=0).id


def replay(name: str, num: int, budget_s: float, console: Console, hosts: Hosts, *, trusts: bool = False) -> int:
    """Measures at most `num` cells of a bundle or study for `budget_s`; prints and keeps what becomes of its claims.

    The exit status is 1 if something is not as claimed, or nothing could be told. `trusts`: cells may call what they
    name. Raises UserError: there is no such bundle or study, or something in the bundle is wrong.
    """
    began_s, machine = time.monotonic(), fingerprint()
    claims, cells = (_of_study(name), []) if name.startswith(STUDY) else _of_bundle(Path(name))
    near = {key_of(each.cell): each for each in cells if hardware(each.environment) == hardware(machine)}
    known = {key_of(each.cell): each for each in cells} | near
    alone = Judgement(ratio=1.0, word=Word.same)
    claims += [Claim(each.label, (each.cell, each.cell), alone) for each in near.values()]
    if known:
        say(console, _where(next(iter((near or known).values())), machine, is_near=bool(near)))
    kept = _chosen(claims, known, num, budget_s, trusts, console)
    chosen = {key_of(cell): cell for claim in kept for cell in claim.cells}
    what = f"{counted(len(chosen), 'cell')} of its first claims that can run here"
    say(console, f"Measures {what}, for at most {duration(budget_s)}")
    folder = workplace().root / RUNS / f"{datetime.now():%Y-%m-%d_%H-%M-%S}-replay"
    left_s = budget_s - (time.monotonic() - began_s)
    if left_s <= 0:
        raise UserError(f"--budget: to read the claims took {budget_s - left_s:.0f} s: give it more")

    def told() -> list[Finding]:
        here = {key_of(each.cell): each for each in read(folder).cells} if (folder / PLAN).exists() else {}
        return [_of_claim(each, here, known) for each in kept]

    measure = partial(_measure, folder, max(1.0, round(LONGEST * left_s)), console, hosts)
    measure(chosen.values(), range(MIN_PROCESSES), LAST * left_s)
    first, took_s = told(), time.monotonic() - began_s
    undecided = [claim for claim, each in zip(kept, first, strict=True) if each.is_undecided]
    again = {key_of(cell): cell for claim in undecided for cell in claim.cells}
    # As often as there is time for, and then one look: looking after each round would find a difference by chance.
    left_s = LAST * budget_s - took_s
    num_more = min(MOST, int(MIN_PROCESSES * left_s / took_s * len(chosen) / max(1, len(again))))
    if again and num_more > 0:
        say(console, f"Not all can be told yet: measures {counted(len(again), 'cell')} {num_more} times more")
        measure(again.values(), range(MIN_PROCESSES, MIN_PROCESSES + num_more), left_s)
    # The others stay: not all of their cells were measured again, so that drift would be in them.
    findings = [after if before.is_undecided else before for before, after in zip(first, told(), strict=True)]
    for found, what, there, measured, why in findings:
        say(console, f"{found:<15} {what}: {there} there, {measured} here{f' ({why})' if why else ''}")
    if (folder / PLAN).exists():
        values = {"of": name, "equal_machine": bool(near), "findings": [each._asdict() for each in findings]}
        with writing_errors(shown(folder / REPLAY)):
            write_json(folder / REPLAY, values)
        say(console, f"Kept in {shown(folder / REPLAY)}, beside the records")
    words = {each.found for each in findings} - {Found.cant_tell}
    return int(not words or bool(words & {Found.fails, Found.faster, Found.slower}))


def _of_bundle(path: Path) -> tuple[list[Claim], list[MeasuredCell]]:
    """The fastest setting over the next one, in each group, then over the third one; the cells, the newest last."""
    found = verify(path)
    if found.problems:
        raise UserError(f"{path}: wrong, so not replayed: `accelbench verify` says what ({found.problems[0]})")
    cells = sorted((each for sweep in found.sweeps for each in sweep.cells), key=lambda each: each.started_at)
    gaps = [[(each.group, each.group.gap_to(other)) for other in each.others] for each in answers(cells)]
    claims = [
        Claim(f"{of.what}: {of.text(gap.first)} over {of.text(gap.second)}", (gap.first.cell, gap.second.cell), gap)
        for of, gap in (each for of_rank in zip_longest(*gaps) for each in of_rank if each)
        if gap.word != Word.cant_tell
    ]
    return claims, [each for each in cells if each.competes]


def _of_study(name: str) -> list[Claim]:
    claims = getattr(extension.load(report_extension(workplace().project)), "claims", None)
    if claims is None:
        raise UserError(f"{name}: the studies are not here: they are in accelbench's own checkout alone")
    found: list[Claim] = claims(name.removeprefix(STUDY))
    return found


def _chosen(
    claims: Sequence[Claim],
    known: Mapping[str, MeasuredCell],
    num: int,
    budget_s: float,
    trust: bool,
    console: Console,
) -> list[Claim]:
    """The first claims that `num` cells and the budget allow for; prints why the others are left out."""
    kept, cells, left = list[Claim](), set[str](), defaultdict[str, list[str]](list)
    for claim in claims:
        wanted = cells | {key_of(cell) for cell in claim.cells}
        records = [known[key].record for key in wanted if key in known]
        took_s = MIN_PROCESSES * sum(record.wall_s for record in records if record)
        why = next(filter(None, (_why_not(cell, trust) for cell in claim.cells)), "")
        why = why or "--cells takes more" * (len(wanted) > num) or "a longer --budget takes more" * (took_s > budget_s)
        if why:
            left[why].append(claim.what)
        else:
            kept, cells = [*kept, claim], wanted
    for reason, texts in left.items():
        more = f"; {and_more(len(texts) - MAX_NAMED, 'claim')}" if len(texts) > MAX_NAMED else ""
        say(console, f"{NOT_MEASURED:<15} {'; '.join(texts[:MAX_NAMED])}{more} ({reason})")
    return kept


def _why_not(cell: Cell, trusts: bool) -> str | None:
    """Why the cell is not measured here; None if it is."""
    if cell.protocol in NO_SPEED:
        return f"protocol={cell.protocol} has no speed to compare"
    named = [*cell.own_code.values(), *filter(None, [cell.python, cell.model.weights_file, cell.data.path])]
    named += [f"engine.tpu={cell.keras.tpu}"] if cell.keras and cell.keras.tpu != KerasSettings.tpu else []
    named += [f"model.args.{name}" for name in cell.model.args if cell.model.library != Library.accelbench]
    if named and not trusts:
        return f"{named[0]} is not in the bundle, and may be anything that is here: --trust allows it"
    try:
        check_own_code([cell])
        return skip_reason(cell)
    except UserError as error:
        return str(error)


def _measure(
    folder: Path, limit_s: float, console: Console, hosts: Hosts, cells: Iterable[Cell], rounds: range, within_s: float
) -> None:
    """Measures rounds of the cells, one data set after another: each cell once, in a random order, against drift."""
    limited = (replace(cell, timeout_s=min(cell.timeout_s, limit_s)) for cell in cells)
    by_data = grouped(limited, lambda cell: cell.data.name)
    options = replace(one_cell("tracking=none")[1], quiet_s=QUIET * limit_s, out=f"{RUNS}/{folder.name}")
    for of_data in by_data.values():
        ends_s = within_s * len(of_data) / sum(map(len, by_data.values()))
        order = [cell for _ in rounds for cell in random.sample(of_data, len(of_data))]
        runs = [replace(cell, repeat=place) for place, cell in enumerate(order, 100 * rounds.start)]
        try:
            sweep.run(runs, replace(options, ends_after_s=ends_s), console, hosts=hosts, show=lambda result: None)
        except UserError as error:  # such as data that are not here
            say(console, str(error), "yellow")


def _of_claim(claim: Claim, here: Mapping[str, MeasuredCell], known: Mapping[str, MeasuredCell]) -> Finding:
    there, published = claim.judged, _ratio(claim.judged)
    sides = [here.get(key_of(cell)) for cell in claim.cells]
    if claim.cells[0] == claim.cells[1]:
        return _of_cell(known[key_of(claim.cells[0])], sides[0])
    if missing := [_why(each, claim.cells[0]) for each in sides if each is None or not each.speed]:
        return Finding(Found.cant_tell, claim.what, published, why=missing[0])
    found = gap(*(each for each in sides if each))
    if found.word == Word.cant_tell:
        return Finding(Found.cant_tell, claim.what, published, _ratio(found), found.why)
    if (num := min(each.num_processes for each in sides if each)) < MIN_PROCESSES:
        why = f"{num} of {MIN_PROCESSES} processes of a side: give a longer --budget"
        return Finding(Found.cant_tell, claim.what, published, _ratio(found), why)
    (low, high), (least, most) = _bounds(found), _bounds(there)
    is_same = found.word == Word.same
    if is_same != (there.word == Word.same) or (not is_same and found.ratio < 1 < there.ratio):
        verdict = Found.fails
    else:
        verdict = Found.less if high < least else Found.more if low > most else Found.holds
    others = [_has_other_data(known.get(key_of(cell)), here[key_of(cell)]) for cell in claim.cells]
    return Finding(verdict, claim.what, published, _ratio(found), OTHER_DATA if any(others) else "")


def _has_other_data(there: MeasuredCell | None, here: MeasuredCell) -> bool:
    return there is not None and None is not there.data_digest != here.data_digest


def _bounds(judged: Judgement) -> tuple[float, float]:
    """Of the ratio; where no interleaved processes tell, what two processes of one cell may differ by."""
    return judged.low or judged.ratio / LIKELY_RATIO, judged.high or judged.ratio * LIKELY_RATIO


def _of_cell(there: MeasuredCell, here: MeasuredCell | None) -> Finding:
    """Two sessions are not interleaved: as much as processes of one cell may differ by is no difference."""
    published = speed_text(there.cell, there.speed)
    if here is None or not here.speed:
        return Finding(Found.cant_tell, there.label, published, why=_why(here, there.cell))
    if why := OTHER_DATA if _has_other_data(there, here) else _why_cut(here, there.cell):
        return Finding(Found.cant_tell, there.label, published, speed_text(here.cell, here.speed), why)
    found, verdict = gap(here, there), Found.cant_tell
    # Of two sessions, other programs explain that the one that they ran beside is the slower one, however much it is.
    why = BESIDE if found.is_told and (here if found.ratio < 1 else there).side.is_disturbed else found.reason
    if found.is_told and why != BESIDE:
        verdict = Found.faster if found.ratio > 1 else Found.slower
    elif here.low and here.high and there.low and there.high:
        is_near = max(here.high / there.low, there.high / here.low) < LIKELY_RATIO
        verdict = Found.same if is_near else verdict
    measured = f"{speed_text(here.cell, here.speed)} ({100 * (found.ratio - 1):+.1f} %)"
    return Finding(verdict, there.label, published, measured, why if verdict == Found.cant_tell else "")


def _why(here: MeasuredCell | None, asked: Cell) -> str:
    why = here and (_why_cut(here, asked) or here.reason)
    return why or "no process of it ended: see above, or give a longer --budget"


def _why_cut(here: MeasuredCell, asked: Cell) -> str:
    """That the budget cut its typical process, whose few steps tell no speed; empty if it did not."""
    if here.record and here.record.was_cut(asked.timeout_s):
        return f"over {here.record.cell.timeout_s:.0f} s, a tenth of the budget: give a longer --budget"
    return ""


def _ratio(judged: Judgement) -> str:
    is_known = judged.low is not None and judged.high is not None
    interval = f"{significant(judged.low)} to {significant(judged.high)}" if is_known else judged.word
    return f"{significant(judged.ratio)} times ({interval})"


def _where(there: MeasuredCell, here: Mapping[str, Any], *, is_near: bool) -> str:
    """On which machine it was measured, and which packages differ."""
    old, new = (flat(each.get("versions") or {}) for each in (there.environment, here))
    differ = [name for name in old if new.get(name, old[name]) != old[name]]
    cpu = there.environment.get("machine", {}).get("cpu_name")
    machine = "a machine equal to this one" if is_near else cpu or "an unknown machine"
    return f"The bundle was measured on {machine}" + (f", with another {', '.join(differ)}." if differ else ".")
