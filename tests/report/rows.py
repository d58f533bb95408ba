from accelbench.report.table import Table


def texts(table: Table, *first: str) -> list[dict[str, str]]:
    """The rows that begin with `first`, by heading."""
    rows = [dict(zip(table.headings, (entry.text for entry in row), strict=True)) for row in table.rows]
    return [row for row in rows if tuple(row.values())[: len(first)] == first]
