"""Computes the answer of `accelbench compare`: whether A and B are comparable, and a verdict for each pair of cells."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Console

from accelbench.compare.matching import Match, Matching, match
from accelbench.compare.record_sets import RecordSet
from accelbench.compare.sureness import CONFIDENCE, MIN_PROCESSES, Verdict, are_interleaved
from accelbench.compare.sureness import MARGIN as MARGIN
from accelbench.compare.sureness import SpeedRatio as SpeedRatio
from accelbench.compare.sureness import compare_processes as compare_processes
from accelbench.errors import UserError
from accelbench.presentation import counted, say
from accelbench.schema.record import CODE, DEVICE_MEASUREMENTS, hardware, listed
from accelbench.schema.serialize import flat

# If these settings differ, the two speeds are of different work.
MEANING = ("model.name", "data.name", "mode", "protocol")
# Verdict -> its style, and the sentence for a single pair.
SENTENCES = {
    Verdict.same: ("dim", "B is as fast as A, within {margin:g} %"),
    Verdict.faster: ("green", "B is faster than A"),
    Verdict.slower: ("red", "B is slower than A"),
    Verdict.cant_tell: ("yellow", "Can't tell which is faster"),
}
NONE = {"none"}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The limits behind the verdicts and the exit status."""

    margin: float = MARGIN  # see `SpeedRatio.verdict`
    max_slower: float | None = None  # share; the exit status is 1 if a pair's whole interval is below minus this share
    anyway: bool = False  # whether to compare if data or work differ, or if processes were not interleaved
    may_pass_undecided: bool = False  # exit status if `max_slower` can't be decided: 0 if true, 2 if false


def terms(margin: str | None, fail_if: str | None, *, anyway: bool = False, may_pass_undecided: bool = False) -> Terms:
    """Parses texts of the command line such as `2%` and `slower:5%`. Raises UserError: a text has a wrong form."""
    return Terms(
        margin=MARGIN if margin is None else _share("--margin", margin, ""),
        max_slower=None if fail_if is None else _share("--fail-if", fail_if, f"{Verdict.slower}:"),
        anyway=anyway,
        may_pass_undecided=may_pass_undecided,
    )


def _share(flag: str, text: str, prefix: str) -> float:
    match = re.fullmatch(rf"{prefix}(\d{{1,2}}(?:\.\d+)?)%", text)
    if not match:
        raise UserError(f"{flag} {text}: should be from 0% to below 100%, such as {prefix}5%")
    return float(match[1]) / 100


class Compared(NamedTuple):
    """The result of comparing A and B."""

    matching: Matching
    pairs: list[tuple[Match, SpeedRatio]]  # pairs that ran on at least one side, and B's speed over A's
    warnings: list[str]  # what a reader of the verdicts should know


def compared(first: RecordSet, second: RecordSet, *, anyway: bool) -> Compared:
    """Compares B with A. Raises UserError: A and B are not comparable. See `Terms.anyway`."""
    a, b = (
        {(repr(process.cell), process.started_at) for process in side.processes if process.rates}
        for side in (first, second)
    )
    if common := a & b:
        raise UserError(
            f"{first.name} and {second.name} have {counted(len(common), 'record')} in common: name two separate "
            "folders, or add @WORD to both names, where WORD is a git revision"
        )
    matching = match(first.processes, second.processes)
    different = _other_work(matching)
    if different and not anyway:
        raise UserError(f"A and B did not measure the same thing: {'; '.join(different)}; add --anyway to compare them")
    # Two machines drift independently, so interleaving has no effect.
    anyway = anyway or machines(first) != machines(second)
    warnings = [
        *(f"Not the same thing: {difference}" for difference in different),
        *_environment_differences(first, second),
        *_measurement_warnings(matching.pairs, anyway),
    ]
    for letter, records in (("A", first), ("B", second)):
        warnings += [f"{letter}: {note}" for note in listed(records.notes)]
    ran = [one for one in matching.pairs if not one.is_skipped]
    # The more pairs, the wider each interval (Bonferroni). If no speed differs, 95 % of all comparisons name no pair.
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(ran))
    pairs = [(one, compare_processes(one.first, one.second, confidence, anyway=anyway)) for one in ran]
    return Compared(matching, pairs, warnings)


def answer(first: RecordSet, second: RecordSet, terms: Terms, console: Console) -> int:
    """Compares B with A, prints the answer, and returns the exit status.

    The status is 1 if a pair is surely slower by more than `terms.max_slower`. Otherwise, it is 0.

    Raises UserError: A and B are not comparable, or `check_decided` finds that nothing was decided.
    """
    result = compared(first, second, anyway=terms.anyway)
    for letter, records in (("A", first), ("B", second)):
        say(console, f"{letter}: {records.name} ({described(records)})")
    for name, values in result.matching.varied.items():
        say(console, f"Compared: {name}: {values}")
    for warning in result.warnings:
        say(console, warning, "yellow")
    together = f", corrected for {len(result.pairs)} pairs" if len(result.pairs) > 1 else ""
    say(console, f"\nB's samples/s against A's, with the {100 * CONFIDENCE:g} % interval of the difference{together}:")
    counts = Counter[Verdict]()
    for pair, ratio in result.pairs:
        verdict = ratio.verdict(terms.margin)
        counts[verdict] += 1
        style, sentence = SENTENCES[verdict]
        say(console, f"{pair.label:<42} {verdict:<10} {difference(ratio)}", style)
    if len(result.pairs) == 1:
        say(console, sentence.format(margin=100 * terms.margin))
    else:
        words = ", ".join(f"{num} {verdict}" for verdict, num in counts.most_common())
        say(console, f"B: {words}" if words else "nothing ran")
    if num_skipped := len(result.matching.pairs) - len(result.pairs):
        say(console, f"  {num_skipped} cells were skipped in both A and B", "dim")
    if result.matching.num_unpaired:
        say(console, f"  {result.matching.num_unpaired} cells are in only one of A and B", "dim")
    ratios = [ratio for _, ratio in result.pairs]
    limit = terms.max_slower
    if limit is not None and any(ratio.is_slower_by(limit) for ratio in ratios):
        return 1
    check_decided(ratios, terms)
    return 0


def check_decided(pairs: Sequence[SpeedRatio], terms: Terms) -> None:
    """Raises UserError if `--fail-if` can't be decided for a pair, or if there is no pair.

    It raises nothing if `terms` allow undecided pairs.
    """
    limit = terms.max_slower
    if limit is None or terms.may_pass_undecided:
        return
    if not pairs or not all(pair.interleaved and pair.tells_slower_by(limit) is not None for pair in pairs):
        raise UserError(
            f"--fail-if slower:{100 * limit:g}%: undecided. An interval contains -{100 * limit:g} %, or a side "
            f"has fewer than {MIN_PROCESSES} interleaved processes. Measure more processes, or add --anyway"
        )


def difference(comparison: SpeedRatio) -> str:
    """Formats a comparison, such as `+4.1 % (+3.2 % to +5.0 %), 5 and 5 processes`."""
    counts = f"{comparison.num_first} and {comparison.num_second} processes"
    if comparison.ratio is None or comparison.low is None or comparison.high is None:
        return f"{counts}; it takes {MIN_PROCESSES} a side"
    values = (comparison.ratio, comparison.low, comparison.high)
    ratio, low, high = (f"{100 * (value - 1):+,.1f} %" for value in values)
    return f"{ratio} ({low} to {high}), {counts}{'' if comparison.interleaved else ', not interleaved'}"


def _other_work(matching: Matching) -> list[str]:
    different = [f"{name}: {values}" for name, values in matching.varied.items() if name in MEANING]
    for one in matching.pairs:
        data = [[process.data for process in side if process.data] for side in (one.first, one.second)]
        a, b = ({f"{d.name}{' (a stand-in)' if d.stand_in else ''} {d.digest[:8]}" for d in side} for side in data)
        if a and b and a != b:
            return [*different, f"the data of {one.label}: {_listed(a)} | {_listed(b)}"]
    return different


def _environment_differences(first: RecordSet, second: RecordSet) -> list[str]:
    """Returns a line for each part in which the environments of A and B differ, except git and the cluster's job.

    Raises UserError: A or B has records of several machines.
    """
    sides = [_environment_values(records.environments()) for records in (first, second)]
    for records, values in zip((first, second), sides, strict=True):
        mixed = next((name for name in values if name.startswith("machine.") and len(values[name]) > 1), None)
        if mixed:
            raise UserError(
                f"{records.name}: records of several machines ({mixed}: {_listed(values[mixed])}): "
                "name a folder with the records of one machine"
            )
    has_several = any(process.cell.python for process in first.processes + second.processes)
    lines = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        part, _, _ = name.partition(".")
        a, b = (values.get(name, NONE) for values in sides)
        # The code may be missing on a side, because each engine has its own. So may a version in another environment.
        may_lack = part == "code" or (part == "versions" and has_several)
        is_alike = (a == b and len(a) == 1) or (may_lack and NONE in (a, b))
        if not is_alike and part != "git" and name != "node.job":
            lines.append(f"The environment differs: {name}: {_listed(a)} | {_listed(b)}")
    return lines


def machines(records: RecordSet) -> list[str]:
    """Returns a text for each kind of hardware on which records were measured."""
    return sorted({hardware(environment) for environment in records.environments()})


def _environment_values(environments: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Returns a dict: dotted name of a part of the environments -> its values."""
    values_of: dict[str, set[str]] = defaultdict(set)
    for environment in environments:
        kept = {part: value for part, value in environment.items() if part not in DEVICE_MEASUREMENTS}
        for name, value in flat(kept).items():
            values_of[name].add(value.strip('"')[: 12 if name.partition(".")[0] in CODE else None])
    return values_of


def _measurement_warnings(pairs: list[Match], anyway: bool) -> list[str]:
    warnings = []
    if num_apart := sum(not one.is_skipped and not are_interleaved(one.first, one.second) for one in pairs):
        warnings.append(
            f"Not interleaved: {num_apart} of {len(pairs)} pairs. If the machine's speed changed between A and B, "
            "the difference includes this change, but its interval does not."
            + ("" if anyway else " Interleave them with `compare --run`, or add --anyway to get a verdict.")
        )
    processes = [process for one in pairs for process in one.first + one.second]
    if disturbed := [process.disturbed for process in processes if process.disturbed]:
        warnings.append(f"Disturbed, left out: {len(disturbed)} of {len(processes)} processes ({disturbed[0]}).")
    if num_beside := sum(process.was_beside_others and not process.disturbed for process in processes):
        others = "others used the machine's cores meanwhile"
        warnings.append(f"Not alone: {num_beside} of {len(processes)} processes; {others}.")
    return warnings


def described(records: RecordSet) -> str:
    """Says how many processes have each outcome."""
    outcomes = Counter(process.outcome for process in records.processes)
    return ", ".join(f"{num} {outcome}" for outcome, num in outcomes.most_common())


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(values))
