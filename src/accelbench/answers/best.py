"""The best cells of a group by speed, latency, energy and money, and the Pareto front of all four."""

from collections.abc import Sequence
from typing import Literal

from accelbench.answers.cells import MeasuredCell

# Criterion -> its column of cells.csv, and whether more or less is better.
CRITERIA: dict[str, tuple[str, Literal["most", "least"]]] = {
    "throughput": ("samples_per_s", "most"),
    "latency": ("latency_p50_ms", "least"),
    "energy": ("energy_j_per_sample", "least"),
    "money": ("cost_per_million_samples", "least"),
}
UNBEATEN = "unbeaten"
MAX_UNBEATEN = 8  # of one model and mode


def best_by(cells: Sequence[MeasuredCell], criterion: str) -> MeasuredCell | None:
    """The best cell by one of `CRITERIA`; None if it is unknown for all of them."""
    column, kind = CRITERIA[criterion]
    known = [(value, each) for each in cells if (value := each.number(column)) is not None]
    if not known:
        return None
    return (max if kind == "most" else min)(known, key=lambda pair: pair[0])[1]


def unbeaten(cells: Sequence[MeasuredCell]) -> list[MeasuredCell]:
    """The Pareto front, fastest first.

    A cell is left out if another is at least as good by every criterion that is known of all cells.
    """
    columns = [(c, kind) for c, kind in CRITERIA.values() if all(each.number(c) is not None for each in cells)]

    def merits(cell: MeasuredCell) -> list[float]:
        return [(1 if kind == "most" else -1) * (cell.number(column) or 0.0) for column, kind in columns]

    scored = sorted(((merits(each), each) for each in cells), key=lambda pair: pair[0], reverse=True)
    front: list[tuple[list[float], MeasuredCell]] = []
    for merit, each in scored:  # in this order, no cell beats an earlier one
        if columns and not any(all(a >= b for a, b in zip(better, merit, strict=True)) for better, _ in front):
            front.append((merit, each))
    return [each for _, each in front]


def choices(cells: Sequence[MeasuredCell]) -> list[tuple[MeasuredCell, str]]:
    """The best cells of a group, each with what it is best by (`throughput, latency`); then the rest of the front."""
    criteria: dict[str, list[str]] = {}
    found: dict[str, MeasuredCell] = {}
    best = [(criterion, best_by(cells, criterion)) for criterion in CRITERIA]
    for criterion, each in [*best, *((UNBEATEN, each) for each in unbeaten(cells)[:MAX_UNBEATEN])]:
        if each is not None and not (criterion == UNBEATEN and each.measured_key in found):
            found[each.measured_key] = each
            criteria.setdefault(each.measured_key, []).append(criterion)
    return [(each, ", ".join(criteria[key])) for key, each in found.items()]
