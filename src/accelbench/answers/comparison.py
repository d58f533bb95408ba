"""Compares two sets of records, A and B: whether they are comparable, and a verdict for each pair of cells."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from accelbench.answers.cells import MIN_PROCESSES, Process, cell_keys
from accelbench.answers.sureness import (
    CONFIDENCE,
    MARGIN,
    SpeedRatio,
    Verdict,
    are_interleaved,
    compare_processes,
)
from accelbench.errors import UserError
from accelbench.presentation import counted, say
from accelbench.project import PLAN, RECORDS, RESULTS, RUNS, workplace
from accelbench.schema.cell import Status
from accelbench.schema.plan_file import labels, read_planned, sweep_folders
from accelbench.schema.record import CODE, DEVICE_MEASUREMENTS, hardware, listed, read, read_all
from accelbench.schema.serialize import canonical_json, flat

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
class RecordSet:
    """The records of A or of B."""

    name: str  # name, as the user wrote it
    processes: list[Process]  # one for each record, of any status
    notes: Sequence[str] = ()  # a line for each record and plan that could not be read


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The limits behind the verdicts and the exit status."""

    margin: float = MARGIN  # see `SpeedRatio.verdict`
    # Share; the exit status is 1 if a pair's whole interval is below minus this share.
    max_slower: float | None = None
    anyway: bool = False  # whether to compare if data or work differ, or if processes were not interleaved
    may_pass_undecided: bool = False  # exit status if `max_slower` can't be decided: 0 if true, 2 if false


class Pair(NamedTuple):
    """The processes of a cell of A, and the processes of the matching cell of B."""

    label: str  # label of B's cell without its repeat; different from other pairs' labels
    first: list[Process]
    second: list[Process]


class Compared(NamedTuple):
    """The result of comparing A and B."""

    pairs: list[tuple[Pair, SpeedRatio]]  # pairs that ran on at least one side, and B's speed over A's
    # The compared settings: no value of A is a value of B. Dotted name -> values in A and in B, such as `8 | 32, 64`.
    varied: dict[str, str]
    warnings: list[str]  # what a reader of the verdicts should know
    num_unpaired: int  # cells that are in only one of A and B


def find(name: str) -> RecordSet:
    """Returns the records that `name` means in the project, or in the current folder outside of a project.

    A name is a folder of records, a suite under results/, the file of one record, or `[FOLDER]@WORD`.

    `FOLDER@WORD` selects records in FOLDER, including records of earlier sweeps. If FOLDER is left out, it is
    results/, or runs/ outside of a project. A record is selected if its git revision begins with WORD, or if its branch
    is WORD.

    Raises UserError: nothing has this name, or no record is readable.
    """
    path, word = name, ""
    where = workplace()
    if "@" in name and _located(name, where.root) is None:
        path, _, word = name.rpartition("@")
    place = _located(path or (RESULTS if where.project else RUNS), where.root)
    if place is None:
        raise UserError(
            f"{path}: not a folder of records, a suite or a record: name one, or use `compare --run` to measure cells"
        )
    if place.is_file() and not word:
        return RecordSet(name=name, processes=[Process.of(read(place))])
    readable = read_all(list(_records_below(place, planned=not word)))
    processes = [Process.of(record).without_samples() for record in readable]
    notes = listed(readable.problems())
    if not processes:
        raise UserError("\n  ".join([f"{name}: holds no {'readable ' if notes else ''}records", *notes]))
    if word:
        processes = [
            process for process in processes if _is_at(process.environment.get("git", {}), word.lower())
        ]
    if not processes:
        raise UserError("\n  ".join([f"{name}: no record has this git revision or branch", *notes]))
    # Of each cell on each machine, only processes with the code, weights, data and packages of the last one count.
    keyed = list(zip(processes, cell_keys(processes), strict=True))
    ran = sorted(keyed, key=lambda one: one[0].started_at)
    last = set({(process.settings_key, hardware(process.environment)): key for process, key in ran}.values())
    newest = [process for process, key in keyed if key in last]
    if num := len(processes) - len(newest):
        notes.append(f"{counted(num, 'process')} left out because of older code, weights, data or packages")
    return RecordSet(name=name, processes=newest, notes=notes)


def _located(name: str, root: Path) -> Path | None:
    """Returns the path of `name` in the current folder, else in the project's folder, else in results/, else None."""
    places = [Path(name), root / name, root / RESULTS / name] if name else []
    return next((place for place in places if place.exists()), None)


def _records_below(top: Path, *, planned: bool) -> Iterator[Path]:
    """Yields the files of records in `top` and in the folders below it.

    If `planned` is true and a folder has a plan, only the records in this plan are yielded. Raises UserError: the plan
    can't be read.
    """
    for folder in sweep_folders(top):
        is_planned = planned and os.path.lexists(folder / PLAN)
        yield from read_planned(folder).paths if is_planned else sorted(folder.glob(RECORDS))


def _is_at(git: Mapping[str, Any], word: str) -> bool:
    return (git.get("revision") or "").startswith(word) or (git.get("branch") or "").lower() == word


def terms(
    margin: str | None, fail_if: str | None, *, anyway: bool = False, may_pass_undecided: bool = False
) -> Terms:
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


def compared(first: RecordSet, second: RecordSet, *, anyway: bool) -> Compared:
    """Compares B with A. Raises UserError: A and B are not comparable. See `Terms.anyway`."""
    a, b = ({(process.name, process.started_at) for process in side.processes} for side in (first, second))
    if common := a & b:
        raise UserError(
            f"{first.name} and {second.name} have {counted(len(common), 'record')} in common: name two separate "
            "folders, or add @WORD to both names, where WORD is a git revision"
        )
    every, varied, num_unpaired = match(first.processes, second.processes)
    different = _other_work(every, varied)
    if different and not anyway:
        raise UserError(
            f"A and B did not measure the same thing: {'; '.join(different)}; add --anyway to compare them"
        )
    # Two machines drift independently, so interleaving has no effect.
    anyway = anyway or machines(first) != machines(second)
    ran = [
        pair
        for pair in every
        if any(process.outcome != Status.skipped for process in pair.first + pair.second)
    ]
    warnings = [
        *(f"Not the same thing: {difference}" for difference in different),
        *_environment_differences(first, second),
        *_measurement_warnings(ran, anyway),
    ]
    for letter, records in (("A", first), ("B", second)):
        warnings += [f"{letter}: {note}" for note in listed(records.notes)]
    # The more pairs, the wider each interval (Bonferroni). If no speed differs, 95 % of all comparisons name no pair.
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(ran))
    pairs = [(pair, compare_processes(pair.first, pair.second, confidence, anyway=anyway)) for pair in ran]
    return Compared(pairs, varied, warnings, num_unpaired)


def match(first: Sequence[Process], second: Sequence[Process]) -> tuple[list[Pair], dict[str, str], int]:
    """Pairs the cells of A and B. Returns the pairs, and the last fields of `Compared`: `varied` and `num_unpaired`.

    Two cells are a pair if all their settings except `repeat` are equal, and except those for which A and B have no
    value in common, such as `engine=keras` in A and `engine=pytorch` in B.

    Raises UserError: no cell of A matches a cell of B, or several cells of one side match the same cell.
    """
    sides = [[(process, _settings(process)) for process in side] for side in (first, second)]
    varied = _varied(*([settings for _, settings in side] for side in sides))
    a, b = (_cells(side, varied) for side in sides)
    matched = {key: replace(b[key][0].cell, repeat=0) for key in a if key in b}
    if not matched:
        names = [", ".join(sorted(set(map(_label, processes)))[:4]) for processes in (first, second)]
        raise UserError(f"no cell of A matches a cell of B. A has {names[0]}, ...; B has {names[1]}, ...")
    labels_of = labels(matched.values())
    pairs = [Pair(labels_of[cell.id], a[key], b[key]) for key, cell in matched.items()]
    return pairs, varied, len(set(a) ^ set(b))


def _label(process: Process) -> str:
    return replace(process.cell, repeat=0).label


def _settings(process: Process) -> dict[str, str]:
    """Returns the settings of a cell by dotted name. `repeat` is always 0."""
    return flat(replace(process.cell, repeat=0).settings())


def _cells(side: Sequence[tuple[Process, dict[str, str]]], but: Collection[str]) -> dict[str, list[Process]]:
    """Groups the processes by a key of their cell, which does not depend on the settings in `but`.

    Raises UserError: two different cells have the same key.
    """
    groups: dict[str, list[Process]] = defaultdict(list)
    whole: dict[str, dict[str, str]] = {}
    for process, settings in side:
        key = canonical_json({name: value for name, value in settings.items() if name not in but})
        groups[key].append(process)
        if whole.setdefault(key, settings) != settings:
            raise UserError(
                f"A and B differ in {', '.join(but)}, but A or B has several values itself: "
                f"{_label(groups[key][0])} and {_label(process)}. Give each side one value"
            )
    return groups


def _varied(first: Sequence[dict[str, str]], second: Sequence[dict[str, str]]) -> dict[str, str]:
    """Returns the settings for which A and B have no common value, with the values of both."""
    varied = {}
    for name in dict.fromkeys(name for settings in [*first, *second] for name in settings):
        a, b = ({settings.get(name, "none") for settings in side} for side in (first, second))
        if not a & b:
            varied[name] = " | ".join(_listed(map(_shown, values)) for values in (a, b))
    return varied


def _shown(value: str) -> str:
    return "not set" if value == "null" else value.strip('"')


def answer(first: RecordSet, second: RecordSet, terms: Terms, console: Console) -> int:
    """Compares B with A, prints the answer, and returns the exit status.

    The status is 1 if a pair is surely slower by more than `terms.max_slower`. Otherwise, it is 0.

    Raises UserError: A and B are not comparable, or `check_decided` finds that nothing was decided.
    """
    result = compared(first, second, anyway=terms.anyway)
    for letter, records in (("A", first), ("B", second)):
        outcomes = Counter(process.outcome for process in records.processes)
        nums = ", ".join(f"{num} {outcome}" for outcome, num in outcomes.most_common())
        say(console, f"{letter}: {records.name} ({nums})")
    for name, values in result.varied.items():
        say(console, f"Compared: {name}: {values}")
    for warning in result.warnings:
        say(console, warning, "yellow")
    together = f", corrected for {len(result.pairs)} pairs" if len(result.pairs) > 1 else ""
    say(
        console,
        f"\nB's samples/s against A's, with the {100 * CONFIDENCE:g} % interval of the difference{together}:",
    )
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
    if result.num_unpaired:
        say(console, f"  {result.num_unpaired} cells are in only one of A and B", "dim")
    ratios = [ratio for _, ratio in result.pairs]
    limit = terms.max_slower
    if limit is not None and any(ratio.is_slower_by(limit) for ratio in ratios):
        return 1
    check_decided(ratios, terms)
    return 0


def check_decided(ratios: Sequence[SpeedRatio], terms: Terms) -> None:
    """Raises UserError if `--fail-if` can't be decided for a pair, or if there is no pair.

    It raises nothing if `terms` allow undecided pairs.
    """
    limit = terms.max_slower
    if limit is None or terms.may_pass_undecided:
        return
    if not ratios or not all(
        ratio.interleaved and ratio.tells_slower_by(limit) is not None for ratio in ratios
    ):
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


def _other_work(pairs: Sequence[Pair], varied: Mapping[str, str]) -> list[str]:
    different = [f"{name}: {values}" for name, values in varied.items() if name in MEANING]
    for pair in pairs:
        sides = (pair.first, pair.second)
        data = [[each.record.data for each in side if each.record and each.record.data] for side in sides]
        a, b = (
            {f"{d.name}{' (a stand-in)' if d.stand_in else ''} {d.digest[:8]}" for d in side} for side in data
        )
        if a and b and a != b:
            return [*different, f"the data of {pair.label}: {_listed(a)} | {_listed(b)}"]
    return different


def _environment_differences(first: RecordSet, second: RecordSet) -> list[str]:
    """Returns a line for each part in which the environments of A and B differ, except git and the cluster's job.

    Raises UserError: A or B has records of several machines.
    """
    sides = [_environment_values(records.processes) for records in (first, second)]
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


def machines(records: RecordSet) -> set[str]:
    """Returns a text for each kind of hardware on which records were measured."""
    return {hardware(process.environment) for process in records.processes}


def _environment_values(processes: Iterable[Process]) -> dict[str, set[str]]:
    """Returns a dict: dotted name of a part of the environments -> its values. Each engine has a `code` of its own."""
    values_of: dict[str, set[str]] = defaultdict(set)
    for process in processes:
        kept = {part: value for part, value in process.environment.items() if part not in DEVICE_MEASUREMENTS}
        for name, value in flat(kept | {"code": {process.cell.engine: kept.get("code")}}).items():
            values_of[name].add(value.strip('"')[: 12 if name.partition(".")[0] in CODE else None])
    return values_of


def _measurement_warnings(ran: list[Pair], anyway: bool) -> list[str]:
    warnings = []
    if num_apart := sum(not are_interleaved(pair.first, pair.second) for pair in ran):
        warnings.append(
            f"Not interleaved: {num_apart} of {len(ran)} pairs. If the machine's speed changed between A and B, "
            "the difference includes this change, but its interval does not."
            + ("" if anyway else " Interleave them with `compare --run`, or add --anyway to get a verdict.")
        )
    processes = [process for pair in ran for process in pair.first + pair.second]
    if disturbed := [process.disturbed for process in processes if process.disturbed]:
        warnings.append(
            f"Disturbed, left out: {len(disturbed)} of {len(processes)} processes ({disturbed[0]})."
        )
    if num_beside := sum(process.was_beside_others and not process.disturbed for process in processes):
        others = "others used the machine's cores meanwhile"
        warnings.append(f"Not alone: {num_beside} of {len(processes)} processes; {others}.")
    return warnings


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(values))
