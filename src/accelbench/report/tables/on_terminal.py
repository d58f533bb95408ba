"""A table as a terminal shows it."""

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from accelbench.report.tables.table import Table


def rendered(table: Table) -> RichTable:
    """`table` for rich to print; cells fold where the terminal is too narrow."""
    made = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading, numeric in zip(table.headings, table.numeric, strict=True):
        made.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        made.add_row(*(Text(entry.text) for entry in row))
    return made
