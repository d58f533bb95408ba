"""Writes rows as CSV that a spreadsheet does not take for formulas."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from accelbench.schema.record import Row, Value

# A spreadsheet takes text with one of these at its beginning for a formula; an apostrophe before it prevents that.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write(rows: Sequence[Row], path: Path) -> None:
    """Writes `rows`, which have the same columns, with a heading; unknown values are empty."""
    safe = [{column: _safe(value) for column, value in row.items()} for row in rows]
    # dtype=object keeps whole numbers whole in columns with unknown values.
    pd.DataFrame(safe, dtype=object).to_csv(path, index=False)


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """`rows`, which have the same columns, as a frame in which unknown numbers are NaN, and other values None."""
    return pd.DataFrame(rows, columns=list(rows[0]) if rows else None)


def _safe(value: Value) -> Value:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
