import io

import pytest
from rich.console import Console

from accelbench.report.tables.table import Table, bars, number, rendered, word


@pytest.mark.parametrize("width", [80, 20])
def test_bars_have_a_line_for_each_setting_and_names_and_speeds_fit_into_any_terminal(answered, maker, width) -> None:
    rates = {"fp32": 1_230_000, "bf16": 4_560_000}
    (answer,) = answered([maker.ok(maker.cell(precision=word), rate) for word, rate in rates.items()])
    out = io.StringIO()
    Console(file=out, width=width).print(bars(answer))
    lines = out.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert [word for line in lines for word in line.split() if "," in word[:-1]] == ["4,560,000", "1,230,000"]
    if width == 80:
        assert [line.split()[:3] for line in lines] == [["cpu", "bf16", "b128"], ["cpu", "fp32", "b128"]]
        assert lines[1].rstrip().endswith("3.71 times as slow, likely")
        assert lines[0].count("█") > 3 * lines[1].count("█")
    else:
        assert "".join("".join(line[:6].split()) for line in lines) == "cpubf16b128cpufp32b128"


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
