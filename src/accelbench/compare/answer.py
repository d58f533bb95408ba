"""`accelbench compare`: which of two sides is faster, for each cell that both have, and whether that can be told."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from accelbench.compare.pairs import Pair, Pairing, label, pair
from accelbench.compare.record_sets import Selection, Side
from accelbench.compare.verdict import CONFIDENCE, MARGIN, MIN_PROCESSES, Comparison, Verdict
from accelbench.errors import UserError
from accelbench.schema.conditions import Data
from accelbench.schema.record import DEVICE_MEASUREMENTS
from accelbench.schema.serialize import canonical_json

USAGE = """\
accelbench compare: is B as fast as A?

usage: accelbench compare A B           the records of two sides
       accelbench compare --run A B     two cells, each in quotes as for `accelbench run`, measured in turns
       accelbench compare FOLDER        what such a run measured, once more

A and B are a folder of records (runs/mine), a suite (mnist_networks), a record's file, or FOLDER@WORD: the records in
a folder (results/ without one) whose git revision begins with WORD, whose branch it is, or whose CPU, GPU or TPU has
it in its name. Cells that are equal but for `repeat` are paired; so are, where A and B have no cell in common, those
that are equal but for the settings in which the two sides differ throughout.

The answer is B's samples/s over A's, less 1, by a bootstrap over processes: the steps within one process are no
independent samples. It takes 5 fresh processes a side, measured in turns.
  same        the whole 95 % interval lies within the margin, 2 % to either side
  faster      else, where the whole interval lies above 0
  slower      else, where it lies below 0
  can't tell  none of these, fewer than 5 processes a side, or, on one machine, not measured in turns

options:
  --repeats N         with --run: fresh processes a side (5)
  --margin 2%         what counts as the same
  --fail-if slower:5% exit with 1 if B is for sure slower than A by more than that: the whole interval is
  --anyway            compare different data, modes or protocols, and what was not measured in turns

exit status: 0 done; 1 --fail-if holds, or a cell of --run ended as nobody asked for; 2 a mistake
"""

# Settings that make the two speeds speeds of different things.
MEANING = ("data.name", "mode", "protocol")
STYLES = {Verdict.same: "dim", Verdict.faster: "green", Verdict.slower: "red", Verdict.cant_tell: "yellow"}
SELECTED = {Selection.machine: ("machine",), Selection.revision: ("code", "git")}
MANY = 20  # pairs from which on a false alarm is to be expected


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How the answer is judged.

    Attributes:
        margin: see `Comparison.verdict`.
        max_slower: exit status 1 where a pair is slower by more than this share for sure; None: never.
        anyway: whether what differs in its data or its meaning, or was not measured in turns, is compared all the same,
            since it was asked for.
    """

    margin: float = MARGIN
    max_slower: float | None = None
    anyway: bool = False


def terms(margin: str | None, fail_if: str | None, *, anyway: bool) -> Terms:
    """The terms as the command line has them.

    Args:
        margin: such as `2%`; None for the default.
        fail_if: such as `slower:5%`; None for never.
        anyway: see `Terms`.

    Raises:
        UserError: one is not of that form.
    """
    return Terms(
        margin=MARGIN if margin is None else _share("--margin", margin, ""),
        max_slower=None if fail_if is None else _share("--fail-if", fail_if, f"{Verdict.slower}:"),
        anyway=anyway,
    )


def _share(flag: str, text: str, before: str) -> float:
    found = re.fullmatch(rf"{before}(\d{{1,2}}(?:\.\d+)?)%", text)
    if not found:
        raise UserError(f"{flag} {text}: should be such as {before}5%, from 0% to below 100%")
    return float(found[1]) / 100


def answer(first: Side, second: Side, terms: Terms, console: Console) -> int:
    """Compares the second side with the first, shows the answer, and returns the exit status.

    Raises:
        UserError: what they measured can't be compared.
    """
    _check_apart(first, second)
    pairing = pair(first.processes, second.processes)
    # Two machines drift each on its own, turns or not.
    anyway = terms.anyway or _machines(first) != _machines(second)
    doubts = [*_refused(pairing, terms), *_environment(first, second), *_circumstances(pairing.pairs, anyway)]
    for letter, side in (("A", first), ("B", second)):
        _say(console, f"{letter}: {side.name} ({_described(side)})")
    for name, (a, b) in pairing.varied.items():
        _say(console, f"Compared: {name}: {', '.join(a)} | {', '.join(b)}")
    for doubt in doubts:
        _say(console, doubt, "yellow")
    ran = [one for one in pairing.pairs if not one.is_skipped]
    compared = [(one, one.compare(anyway=anyway)) for one in ran]
    _say(console, f"\nB's samples/s against A's, with the {CONFIDENCE:.0%} interval of the difference:")
    for one, comparison in compared:
        verdict = comparison.verdict(terms.margin)
        _say(console, f"{one.label:<42} {verdict:<10} {_shown(comparison)}", STYLES[verdict])
    _conclude(pairing, [comparison for _, comparison in compared], terms, console)
    too_slow = terms.max_slower is not None and any(c.is_slower_by(terms.max_slower) for _, c in compared)
    return 1 if too_slow else 0


def _shown(comparison: Comparison) -> str:
    """Such as `+4.1 % (+3.2 % to +5.0 %), 5 and 5 processes`."""
    counts = f"{comparison.num_first} and {comparison.num_second} processes"
    if comparison.ratio is None or comparison.low is None or comparison.high is None:
        return f"{counts}; it takes {MIN_PROCESSES} a side"
    ratio, low, high = (f"{100 * (value - 1):+.1f} %" for value in (comparison.ratio, comparison.low, comparison.high))
    return f"{ratio} ({low} to {high}), {counts}{'' if comparison.is_told else ', not in turns'}"


def _conclude(pairing: Pairing, comparisons: list[Comparison], terms: Terms, console: Console) -> None:
    verdicts = Counter(comparison.verdict(terms.margin) for comparison in comparisons)
    _say(console, ", ".join(f"{num} {verdict}" for verdict, num in verdicts.most_common()) or "nothing ran")
    num_skipped = len(pairing.pairs) - len(comparisons)
    if num_skipped:
        _say(console, f"  {num_skipped} were skipped on both sides", "dim")
    if pairing.num_alone:
        _say(console, f"  {pairing.num_alone} only one side has", "dim")
    if len(comparisons) >= MANY:
        told = f"of as many pairs that are alike, about {(1 - CONFIDENCE) * len(comparisons):.0f} intervals miss 0"
        _say(console, f"  by chance alone, {told}", "dim")


def _check_apart(first: Side, second: Side) -> None:
    a, b = ({(one.started_at, label(one.cell)) for one in side.processes if one.rates} for side in (first, second))
    if a & b:
        raise UserError(f"A and B have {len(a & b)} records in common: name sides that have none")


def _refused(pairing: Pairing, terms: Terms) -> list[str]:
    """Where what was measured is not the same thing: doubts if that was asked for.

    Raises:
        UserError: it was not.
    """
    different = [f"{name}: {a[0]} | {b[0]}" for name, (a, b) in pairing.varied.items() if name in MEANING]
    for one in pairing.pairs:
        a, b = ({_data(process.data) for process in side if process.data} for side in (one.first, one.second))
        if a and b and a != b:
            different.append(f"the data of {one.label}: {_listed(a)} | {_listed(b)}")
            break
    if different and not terms.anyway:
        raise UserError(f"A and B did not measure the same thing: {'; '.join(different)}; --anyway compares them")
    return [f"Not the same thing: {each}" for each in different]


def _data(data: Data) -> str:
    return f"{data.name}{' (a stand-in)' * data.stand_in} {data.digest[:8]}"


def _environment(first: Side, second: Side) -> list[str]:
    """What differs in the environments; what was not asked for is a doubt.

    Raises:
        UserError: one side's records come from several machines.
    """
    seen = [_values(side.environments()) for side in (first, second)]
    for side, values in zip((first, second), seen, strict=True):
        mixed = {name: found for name, found in values.items() if len(found) > 1}
        several = next((name for name in mixed if name.startswith("machine.")), None)
        if several:
            raise UserError(
                f"{side.name}: records of several machines ({several}: {_listed(mixed[several])}): "
                f"name one with {side.name.partition('@')[0]}@WORD of its CPU, GPU or TPU"
            )
    asked = {part for side in (first, second) if side.selection for part in SELECTED[side.selection]}
    doubts = []
    for name in dict.fromkeys([*seen[0], *seen[1]]):
        a, b = (values.get(name, {"none"}) for values in seen)
        if name.startswith("git") or (a == b and len(a) == 1):
            continue
        head = "Compared" if name.partition(".")[0] in asked else "The environment differs"
        doubts.append(f"{head}: {name}: {_listed(a)} | {_listed(b)}")
    return doubts


def _machines(side: Side) -> list[str]:
    """What computes in them: another release of Python or of the kernel makes no other machine."""
    parts = ("cpu_name", "num_cores", "gpus", "tpus")
    machines = [environment.get("machine", {}) for environment in side.environments()]
    return sorted({canonical_json([machine.get(part) for part in parts]) for machine in machines})


def _values(environments: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Every part of the environments -> what it was."""
    found: dict[str, set[str]] = {}
    for environment in environments:
        for part, value in environment.items():
            if part in DEVICE_MEASUREMENTS:
                continue
            named = {f"{part}.{name}": each for name, each in value.items()} if isinstance(value, Mapping) else None
            for name, each in (named or {part: value}).items():
                found.setdefault(name, set()).add(each[:12] if name == "code" else str(each))
    return found


def _circumstances(pairs: list[Pair], anyway: bool) -> list[str]:
    """What was amiss when the pairs were measured."""
    doubts = []
    apart = sum(not one.took_turns for one in pairs if not one.is_skipped)
    if apart:
        doubts.append(
            f"Not measured in turns: {apart} of {len(pairs)} pairs. What changed on the machine between A and B is in "
            "the difference, and not in its interval"
            + ("." if anyway else ": `compare --run` takes turns, --anyway tells without.")
        )
    processes = [process for one in pairs for process in one.first + one.second]
    num = sum(process.is_disturbed for process in processes)
    if num:
        doubts.append(f"Disturbed: {num} of {len(processes)} processes; others used the machine's cores meanwhile.")
    return doubts


def _described(side: Side) -> str:
    statuses = Counter(process.status for process in side.processes)
    states = [environment.get("git", {}) for environment in side.environments()]
    revisions = {f"{(git.get('revision') or 'unknown')[:8]}{' (changed)' * bool(git.get('dirty'))}" for git in states}
    return f"{', '.join(f'{num} {status}' for status, num in statuses.most_common())}; git {_listed(revisions)}"


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(values))


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
