"""Sentences about all cells together: which numbers are in doubt or missing, and which data sets were replaced."""

from collections import Counter
from collections.abc import Sequence
from textwrap import shorten

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.serving import best_settings, capacities
from accelbench.answers.time_to_goal import target_answers
from accelbench.judging.row import remarks_in, warnings_of
from accelbench.judging.warnings import Kind
from accelbench.presentation import counted

MAX_REASONS, REASON_LENGTH = 3, 60
MAX_SETS = 2  # data sets that are named


def headline(cells: Sequence[MeasuredCell], published: str = "") -> dict[str, str]:
    """Returns topic, such as `In doubt` -> sentences, separated by line breaks. Topics without text are left out.

    `cells` includes cells without numbers. `published` is a text that compares the answers with published numbers.
    """
    return notices(cells) | ({"Studies": published} if published else {})


def notices(cells: Sequence[MeasuredCell]) -> dict[str, str]:
    """Returns topic -> how many cells are in doubt, which data sets were replaced, and how many cells are missing."""
    texts = {}
    ok = [cell for cell in cells if cell.is_ok]
    if num := sum(bool(warnings_of(cell.row)) for cell in ok):
        texts["In doubt"] = f"{num} of {counted(len(ok), 'cell')} in doubt"
    if names := stand_ins(cells):
        sets = ", ".join(names) if len(names) <= MAX_SETS else f"{len(names)} data sets"
        texts["Stand-ins"] = f"stand-ins for {sets}: only speeds are valid"
    if text := missing(cells):
        texts["Missing"] = text
    return texts


def beside_speeds(cells: Sequence[MeasuredCell]) -> list[str]:
    """Returns a sentence about each workload with other results: requests/s within a limit, and times to a target."""
    served = [f"{capacity.what}: {capacity.sentence}." for capacity in best_settings(capacities(cells))]
    return [*served, *(answer.sentence for answer in target_answers(cells))]


def missing(cells: Sequence[MeasuredCell]) -> str:
    """How many cells have no numbers, and why."""
    reasons = unmeasured(cells)
    if not reasons:
        return ""
    parts = []
    for (outcome, why), num in reasons.most_common(MAX_REASONS):
        parts.append(f"{num:,} {outcome}" + (f" ({why})" if why else ""))
    if len(reasons) > MAX_REASONS:
        parts.append("others")
    return f"{reasons.total():,} of {len(cells):,} cells: {', '.join(parts)}."


def unmeasured(cells: Sequence[MeasuredCell]) -> Counter[tuple[str, str]]:
    """Counts the cells without numbers: (outcome, reason) -> number of cells. The reason may be empty."""
    reasons: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        if not cell.is_ok:
            why = shorten((cell.reason or "").partition(" (")[0], REASON_LENGTH, placeholder=" ...")
            reasons[cell.outcome, why] += 1
    return reasons


def tips(cells: Sequence[MeasuredCell]) -> dict[str, list[str]]:
    """Returns a dict: tip, such as `Tip for 3 cells: try allocator=jemalloc` -> labels of the cells that it is for."""
    labels_of: dict[str, list[str]] = {}
    for cell in cells:
        for tip in remarks_in(cell.row, Kind.tip):
            labels_of.setdefault(tip.partition(": ")[0], []).append(cell.label)
    return {f"Tip for {counted(len(labels), 'cell')}: {advice}": labels for advice, labels in labels_of.items()}


def stand_ins(cells: Sequence[MeasuredCell]) -> dict[str, str]:
    """Returns a dict: data set that was replaced by a stand-in -> a warning that the stand-in was measured."""
    sources: dict[str, str] = {}
    for cell in cells:
        data = cell.record.data if cell.record and cell.measurement else None
        if data is not None and data.stand_in:
            sources.setdefault(data.name, data.source)
    return {
        name: f"NOT {name.upper()}: a stand-in ({source}) was measured. Its accuracies and losses are not "
        f"{name.upper()}'s: do not compare them with published ones. Compare its times only with times that "
        "are for the same number of samples."
        for name, source in sources.items()
    }
