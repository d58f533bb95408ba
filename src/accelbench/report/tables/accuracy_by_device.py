"""Whether a network learns as well on one device as on another: judged over seeds."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, variance

from scipy.stats import t as student

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.options import named
from accelbench.report.tables.table import Table, count, number, percent, word
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Mode

# Accuracies whose difference is surely less than this are called equal.
MARGIN = 0.01
MIN_SEEDS = 3


@dataclass(frozen=True)
class Difference:
    """Mean accuracy of one device less that of another, with the bounds of its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """`equal`: the interval lies within the margin; `different`: it holds no zero; else `undecided`."""
        if self.low > -MARGIN and self.high < MARGIN:
            return f"equal within {MARGIN:.0%}"
        return "undecided: more seeds" if self.low <= 0 <= self.high else "different"


def difference(one: Sequence[float], other: Sequence[float]) -> Difference | None:
    """The difference of two means with Welch's interval; None where one has too few values.

    As a test of equivalence this is conservative: TOST (Schuirmann 1987) would take the 90 % interval. The method is
    Welch's (Biometrika 34, 1947).
    """
    if min(len(one), len(other)) < MIN_SEEDS:
        return None
    mean = fmean(one) - fmean(other)
    parts = [variance(values) / len(values) for values in (one, other)]
    if sum(parts) == 0:
        return Difference(mean, mean, mean)
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (one, other), strict=True)
    )
    half = float(student.ppf(0.975, freedom)) * sum(parts) ** 0.5
    return Difference(mean, mean - half, mean + half)


def table(sweep: Sweep) -> Table | None:
    """Each pair of devices that trained the same settings with several seeds; None where there is none."""
    groups: dict[str, list[tuple[ReportedCell, float]]] = defaultdict(list)
    for planned in sweep.cells:
        accuracy = planned.number("accuracy")
        if planned.is_ok and planned.cell.mode == Mode.train and accuracy is not None:
            groups[canonical_json(planned.all_but_device | {"seed": None})].append((planned, accuracy))
    rows = []
    for cells in groups.values():
        accuracies: dict[str, list[float]] = defaultdict(list)
        for planned, accuracy in cells:
            accuracies[planned.cell.device].append(accuracy)
        for one, other in combinations(accuracies, 2):
            found = difference(accuracies[one], accuracies[other])
            if found is None:
                continue
            cell = cells[0][0].cell
            rows.append(
                [
                    word(cell.model.name),
                    word(cell.precision),
                    word(named(cells[0][0].row)),
                    count(cell.epochs),
                    word(f"{one} less {other}"),
                ]
                + [count(len(accuracies[one])), count(len(accuracies[other]))]
                + [percent(fmean(accuracies[one])), percent(fmean(accuracies[other]))]
                + [number(100 * value) for value in (found.mean, found.low, found.high)]
                + [word(found.verdict)]
            )
    headings = ["network", "precision", "options", "epochs", "devices", "seeds", "seeds of the other", "accuracy (%)"]
    headings += ["accuracy of the other (%)", "difference (points)", "low", "high", "verdict"]
    notes = [
        f"Low and high bound the difference of the means over seeds with 95 % confidence (Welch). Equal is what surely "
        f"differs by less than {100 * MARGIN:g} points."
    ]
    return Table(title="Accuracy across devices", headings=headings, rows=rows, notes=notes).known() if rows else None
