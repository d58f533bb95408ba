"""Renders a table of the report for a terminal."""

from rich import box
from rich.markup import escape
from rich.table import Table as Rendered

from accelbench.report.tables.table import Table


def rendered(table: Table) -> Rendered:
    """`table` for rich; long cells fold if the terminal is narrow."""
    made = Rendered(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading, numeric in zip(table.headings, table.numeric, strict=True):
        made.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        made.add_row(*(escape(entry.text) for entry in row))
    return made
