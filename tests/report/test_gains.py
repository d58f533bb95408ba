"""What a terminal draws of answers; tests/sweep/test_terminal.py has whole sweeps."""

import pytest

from accelbench.answers import gains
from accelbench.schema.cell import Options
from accelbench.schema.vocab import Status


@pytest.mark.parametrize("width", [72, 80, 120])
def test_each_cell_has_a_bar_as_long_as_its_speed_on_a_line_that_fits(answered, maker, width) -> None:
    rates = {"fp32": 1_230_000, "bf16": 4_560_000}
    cells = [maker.cell(precision=word, options=Options(channels_last=True, freeze=True)) for word in rates]
    (answer,) = answered([maker.ok(cell, rate) for cell, rate in zip(cells, rates.values(), strict=True)])
    _, _, *lines, _ = (line.plain for line in gains.of_one(answer, width, 12))
    assert max(map(len, lines)) <= width
    assert [line.split("samples/s")[0].split()[-1] for line in lines] == ["4,560,000", "1,230,000"]
    longer, shorter = (line.count("━") for line in lines)
    assert longer / shorter == pytest.approx(4.56 / 1.23, rel=0.35)


def test_jobs_of_one_model_are_told_apart_by_how_they_are_fed_or_on_what(answered, maker) -> None:
    protocols = [{"protocol": "steps", "steps": 3}, {"protocol": "steps", "steps": 6}, {"protocol": "fit"}, {}]
    found = answered([maker.ok(maker.cell(**each), 100) for each in protocols])
    text = " ".join(line.plain for line in gains.of_jobs(found, 200))
    names = ("mlp steps steps=3: 100/s", "mlp steps steps=6: 100/s", "mlp fit: 100/s", "mlp train: 100/s")
    assert all(name in text for name in names), text


def test_without_a_job_one_empty_line_is_before_the_remarks(read, maker) -> None:
    failed = read([maker.record(maker.cell(), Status.failed, reason="raised")]).cells
    assert [line.plain for line in gains.summary([], failed, 80)] == ["", "- 1 of 1 cells: 1 failed (raised)."]
