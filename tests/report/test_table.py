import io

import pytest
from rich.console import Console

from accelbench.report.table import Table, number, rendered, word


@pytest.mark.parametrize("width", [80, 90, 112])
def test_a_table_of_prices_breaks_no_word_and_is_no_wider_than_the_terminal(width) -> None:
    headings = ["best by", "with", "samples/s", "± (%)", "p50 (ms)", "cost of a million", "bound by", "doubts"]
    texts = ["throughput, money", "cpu fp32 b8"], ["latency, energy", "cpu bf16 b128, pytorch"]
    rows = [[*map(word, own), *map(number, (2740, 48, 452, 313)), word("compute"), number(2)] for own in texts]
    out = io.StringIO()
    Console(file=out, width=width).print(rendered(Table(title="", headings=headings, rows=rows), width))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    shown = " ".join(lines).split()
    assert {entry for row in rows for each in row for entry in each.text.split()} <= set(shown)
    assert {part for heading in headings for part in heading.split()} <= set(shown)
