import io
from pathlib import Path

from rich.console import Console

from accelbench.answers.ranking import answers
from accelbench.report.read import read
from accelbench.report.tables.on_terminal import bars


def test_bars_have_a_line_for_each_setting_that_fits_into_80_columns(tmp_path: Path, maker) -> None:
    records = [maker.ok(maker.cell(precision=word), rate) for word, rate in (("fp32", 100), ("bf16", 400))]
    (answer,) = answers(read(maker.suite(tmp_path, records)).cells)
    out = io.StringIO()
    Console(file=out, width=80).print(bars(answer))
    first, second = out.getvalue().splitlines()
    assert first.split() == ["cpu", "bf16", "b128", "400", "images/s", first.split()[5], "fastest"]
    assert second.rstrip().endswith("0.250 times as fast, likely")
    assert first.count("█") > 3 * second.count("█")
    assert max(len(line.rstrip()) for line in (first, second)) <= 80


def test_names_and_speeds_stay_on_a_terminal_of_20_columns(tmp_path: Path, maker) -> None:
    records = [maker.ok(maker.cell(precision=word), rate) for word, rate in (("fp32", 1_230_000), ("bf16", 4_560_000))]
    (answer,) = answers(read(maker.suite(tmp_path, records)).cells)
    out = io.StringIO()
    Console(file=out, width=20).print(bars(answer))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 20
    assert "".join("".join(line[:6].split()) for line in lines) == "cpubf16b128cpufp32b128"
    assert [word for line in lines for word in line.split() if "," in word] == ["4,560,000", "1,230,000"]
