"""Whether a network learns as well on one device as on another, judged over seeds."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from accelbench.answers.words import options_text
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.table import Column, Table, count, number, percent, tabulate_known, word
from accelbench.schema.serialize import group_key
from accelbench.schema.vocab import Mode
from accelbench.stats.means import MeanDifference, mean_difference

# Accuracies are called equal if the whole interval of their difference is within this margin.
MARGIN = 0.01
MIN_SEEDS = 3


@dataclass(frozen=True)
class DevicePair:
    """Two devices that trained the same settings with several seeds.

    Attributes:
        example: one of the cells; the others differ only in device and seed.
        devices: the two device words.
        accuracies: of each device, one per seed, shares of 1.
        difference: the first device's mean accuracy minus the second's.
    """

    example: ReportedCell
    devices: tuple[str, str]
    accuracies: tuple[Sequence[float], Sequence[float]]
    difference: MeanDifference


COLUMNS: list[Column[DevicePair]] = [
    Column("network", lambda pair: word(pair.example.cell.model.name)),
    Column("precision", lambda pair: word(pair.example.cell.precision)),
    Column("options", lambda pair: word(options_text(pair.example.row))),
    Column("epochs", lambda pair: count(pair.example.cell.epochs)),
    Column("devices", lambda pair: word(" less ".join(pair.devices))),
    Column("seeds", lambda pair: count(len(pair.accuracies[0]))),
    Column("seeds of the other", lambda pair: count(len(pair.accuracies[1]))),
    Column("accuracy (%)", lambda pair: percent(fmean(pair.accuracies[0]))),
    Column("accuracy of the other (%)", lambda pair: percent(fmean(pair.accuracies[1]))),
    Column("difference (points)", lambda pair: number(100 * pair.difference.mean)),
    Column("low", lambda pair: number(100 * pair.difference.low)),
    Column("high", lambda pair: number(100 * pair.difference.high)),
    Column("verdict", lambda pair: word(verdict(pair.difference))),
]


def verdict(difference: MeanDifference) -> str:
    """`equal` if the interval lies within the margin, `different` if it leaves out zero, else `undecided`.

    As a test of equivalence this is conservative: TOST (Schuirmann 1987) would take the 90 % interval.
    """
    if difference.low > -MARGIN and difference.high < MARGIN:
        return f"equal within {100 * MARGIN:.0f} %"
    return "undecided: more seeds" if difference.low <= 0 <= difference.high else "different"


def device_pairs(sweep: Sweep) -> list[DevicePair]:
    """Each pair of devices with at least `MIN_SEEDS` trained accuracies of the same settings."""
    groups: dict[str, list[tuple[ReportedCell, float]]] = defaultdict(list)
    for reported in sweep.planned:
        accuracy = reported.number("accuracy")
        if reported.is_ok and reported.cell.mode == Mode.train and accuracy is not None:
            groups[group_key(reported.all_but_device | {"seed": None})].append((reported, accuracy))
    pairs = []
    for group in groups.values():
        by_device: dict[str, list[float]] = defaultdict(list)
        for reported, accuracy in group:
            by_device[reported.cell.device].append(accuracy)
        enough = [device for device in by_device if len(by_device[device]) >= MIN_SEEDS]
        for devices in combinations(enough, 2):
            accuracies = (by_device[devices[0]], by_device[devices[1]])
            pairs.append(DevicePair(group[0][0], devices, accuracies, mean_difference(*accuracies)))
    return pairs


def table(sweep: Sweep) -> Table | None:
    """Each pair of devices that trained the same settings with several seeds; None if there is no such pair."""
    notes = [
        f"Low and high bound the difference of the means over seeds with 95 % confidence (Welch). Equal: the whole "
        f"interval is within {100 * MARGIN:g} points of zero."
    ]
    return tabulate_known("Accuracy across devices", COLUMNS, device_pairs(sweep), notes)
