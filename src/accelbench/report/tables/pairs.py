"""Compares the speeds of two cells that differ in only one setting, and the accuracies that two devices reach."""

from collections.abc import Sequence
from itertools import combinations
from operator import itemgetter
from statistics import fmean

from accelbench.answers.cells import NOTE
from accelbench.answers.pairs import OPTIONS, Pair
from accelbench.answers.words import options_text
from accelbench.presentation import significant
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Column, Table, count, number, speed, tabulate_known
from accelbench.schema.serialize import digest, grouped
from accelbench.schema.vocab import Mode
from accelbench.stats.means import mean_difference_interval

ERROR = (
    "Output error: the output is compared with the output of the same weights in plain fp32 on the CPU. The error is "
    "the norm of their difference, divided by the norm of the fp32 output."
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
    """A row for each pair; None without pairs."""
    if all(pair.axis is OPTIONS for pair in found):
        return tabulate_known(title, COLUMNS + COLUMNS_OF_OPTIONS, found, [NOTE, ERROR])
    return tabulate_known(title, COLUMNS, found, [NOTE])


def verdict(low: float, high: float) -> str:
    """Returns `equal` if the interval is within the margin, else `different` if it excludes zero, else `undecided`."""
    # This test of equivalence is conservative: TOST (Schuirmann 1987) uses the 90 % interval.
    if low > -MARGIN and high < MARGIN:
        return f"equal within {100 * MARGIN:g} point"
    return "undecided: more seeds" if low <= 0 <= high else "different"


def accuracies(sweep: Sweep) -> Table | None:
    """Compares any two devices that trained the same settings with at least `MIN_SEEDS` seeds.

    Returns None if there are no such devices.
    """
    trained = [process for process in sweep.planned if process.is_ok and process.cell.mode == Mode.train]
    known = [each for each in trained if each.number("accuracy") is not None]
    rows: list[dict[str, object]] = []
    for group in grouped(known, lambda each: digest(each.all_but("device", "seed"))).values():
        by_device = grouped(group, lambda each: each.cell.device)
        for both in combinations([device for device, of in by_device.items() if len(of) >= MIN_SEEDS], 2):
            sides = [[each.number("accuracy") or 0.0 for each in by_device[device]] for device in both]
            means = [fmean(side) for side in sides]
            low, high = mean_difference_interval(sides[0], sides[1])
            one = group[0]
            rows.append(
                {
                    "network": one.cell.model.name,
                    "precision": one.cell.precision,
                    "options": options_text(one.row),
                    "epochs": count(one.cell.epochs),
                    "devices": " less ".join(both),
                    "seeds": " and ".join(str(len(each)) for each in sides),
                    "accuracies (%)": " and ".join(significant(100 * mean) for mean in means),
                    "difference (points)": number(100 * (means[0] - means[1])),
                    "low": number(100 * low),
                    "high": number(100 * high),
                    "verdict": verdict(low, high),
                }
            )
    notes = [
        f"Low and high: the 95 % interval (Welch) of the difference between the means over seeds. Equal: the whole "
        f"interval is within {100 * MARGIN:g} point of zero."
    ]
    columns = [Column(heading, itemgetter(heading)) for heading in (rows[0] if rows else ())]
    return tabulate_known("Accuracy across devices", columns, rows, notes)
