import io

import pytest
from rich.console import Console

from accelbench.report.tables.table import bars


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
