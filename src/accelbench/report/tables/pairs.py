"""Pairs of cells that differ in one setting alone: their speeds, and of two devices the accuracies over seeds."""

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

from accelbench.answers.cells import NOTE
from accelbench.answers.pairs import OPTIONS, Pair
from accelbench.answers.process import Process
from accelbench.answers.words import options_text
from accelbench.presentation import significant
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Column, Table, count, number, speed, tabulate_known
from accelbench.schema.serialize import group_key, grouped
from accelbench.schema.vocab import Mode
from accelbench.stats.means import MeanDifference, mean_difference

ERROR = (
    "Output error: the norm of the difference from the output of the same weights in plain fp32 on the CPU, as a share "
    "of that output's norm."
)
# Accuracies are called equal if the whole interval of their difference is within this margin.
MARGIN = 0.01
MIN_SEEDS = 3


COLUMNS: list[Column[Pair]] = [
    Column("model, and what is done", lambda pair: pair.what),
    Column("with", lambda pair: pair.value),
    Column("against", lambda pair: pair.base_value),
    Column("times as fast", lambda pair: pair.gap.ratio, number),
    Column("how sure", lambda pair: pair.gap.how_sure),
    Column("samples/s", lambda pair: speed(pair.cell)),
    Column("against: samples/s", lambda pair: speed(pair.base)),
]
COLUMNS_OF_OPTIONS: list[Column[Pair]] = [
    Column("compile (s)", lambda pair: pair.cell.row["compile_s"], number),
    Column("output error", lambda pair: pair.cell.row["output_error"], number),
]


def table(title: str, found: Sequence[Pair]) -> Table | None:
    """A line for each pair; None without pairs."""
    if all(pair.axis is OPTIONS for pair in found):
        return tabulate_known(title, COLUMNS + COLUMNS_OF_OPTIONS, found, [NOTE, ERROR])
    return tabulate_known(title, COLUMNS, found, [NOTE])


class Trained(NamedTuple):
    """Two devices that trained the same settings with several seeds."""

    process: Process  # one of them, which differ only in device and seed
    first: str  # device
    second: str
    accuracies: tuple[list[float], list[float]]  # of each device, shares of 1
    difference: MeanDifference  # of the first device's mean less the second's


ACCURACY_COLUMNS: list[Column[Trained]] = [
    Column("network", lambda pair: pair.process.cell.model.name),
    Column("precision", lambda pair: pair.process.cell.precision),
    Column("options", lambda pair: options_text(pair.process.row)),
    Column("epochs", lambda pair: pair.process.cell.epochs, count),
    Column("devices", lambda pair: f"{pair.first} less {pair.second}"),
    Column("seeds", lambda pair: " and ".join(str(len(each)) for each in pair.accuracies)),
    Column("accuracies (%)", lambda pair: " and ".join(significant(100 * fmean(each)) for each in pair.accuracies)),
    Column("difference (points)", lambda pair: 100 * pair.difference.mean, number),
    Column("low", lambda pair: 100 * pair.difference.low, number),
    Column("high", lambda pair: 100 * pair.difference.high, number),
    Column("verdict", lambda pair: verdict(pair.difference)),
]


def verdict(difference: MeanDifference) -> str:
    """`equal` if the interval lies within the margin, `different` if it leaves out zero, else `undecided`."""
    # As a test of equivalence this is conservative: TOST (Schuirmann 1987) would take the 90 % interval.
    if difference.low > -MARGIN and difference.high < MARGIN:
        return f"equal within {100 * MARGIN:g} point"
    return "undecided: more seeds" if difference.low <= 0 <= difference.high else "different"


def accuracies(sweep: Sweep) -> Table | None:
    """Each pair of devices that trained the same settings with `MIN_SEEDS` seeds or more; None without such a pair."""
    trained = [each for each in sweep.planned if each.is_ok and each.cell.mode == Mode.train]
    known = [each for each in trained if each.number("accuracy") is not None]
    found = []
    for group in grouped(known, lambda each: group_key(each.all_but("device", "seed"))).values():
        by_device = grouped(group, lambda each: each.cell.device.value)
        enough = {
            device: [each.number("accuracy") or 0.0 for each in of_device]
            for device, of_device in by_device.items()
            if len(of_device) >= MIN_SEEDS
        }
        for first, second in combinations(enough, 2):
            both = enough[first], enough[second]
            found.append(Trained(group[0], first, second, both, mean_difference(*both)))
    notes = [
        f"Low and high bound the difference of the means over seeds with 95 % confidence (Welch). Equal: the whole "
        f"interval is within {100 * MARGIN:g} point of zero."
    ]
    return tabulate_known("Accuracy across devices", ACCURACY_COLUMNS, found, notes)
