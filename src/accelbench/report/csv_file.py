"""Writes rows as CSV that a spreadsheet does not take for formulas."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from accelbench.schema.record import Row, Value

# A spreadsheet takes text with one of these at its beginning for a formula; an apostrophe before it prevents that.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write(rows: Iterable[Row], path: Path) -> None:
    """Writes `rows`, which have the same columns, with a heading; unknown values are empty. It keeps no row."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, row in enumerate(rows):
            if not number:
                writer.writerow(row)
            writer.writerow(map(_safe, row.values()))


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """`rows`, which have the same columns, as a frame in which unknown numbers are NaN, and other values None."""
    return pd.DataFrame(rows, columns=list(rows[0]) if rows else None)


def _safe(value: Value) -> Value:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
