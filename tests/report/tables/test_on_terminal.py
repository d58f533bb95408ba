import io

from rich.console import Console

from accelbench.report.tables.on_terminal import bars


def drawn(answered, maker, rates, width):
    records = [maker.ok(maker.cell(precision=word), rate) for word, rate in zip(("fp32", "bf16"), rates, strict=True)]
    (answer,) = answered(records)
    out = io.StringIO()
    Console(file=out, width=width).print(bars(answer))
    lines = out.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    return lines


def test_bars_have_a_line_for_each_setting_that_fits_into_80_columns(answered, maker) -> None:
    first, second = drawn(answered, maker, (100, 400), 80)
    assert first.split() == ["cpu", "bf16", "b128", "400", "images/s", first.split()[5], "fastest"]
    assert second.rstrip().endswith("0.250 times as fast, likely")
    assert first.count("█") > 3 * second.count("█")


def test_names_and_speeds_stay_on_a_terminal_of_20_columns(answered, maker) -> None:
    lines = drawn(answered, maker, (1_230_000, 4_560_000), 20)
    assert "".join("".join(line[:6].split()) for line in lines) == "cpubf16b128cpufp32b128"
    assert [word for line in lines for word in line.split() if "," in word] == ["4,560,000", "1,230,000"]
