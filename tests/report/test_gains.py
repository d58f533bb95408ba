"""What a terminal draws of answers; tests/sweep/test_terminal.py has whole sweeps."""

import pytest

from accelbench.answers import gains
from accelbench.answers.jobs import jobs
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


def test_jobs_come_by_their_gains_and_name_settings_with_the_device_where_it_is_another(answered, maker) -> None:
    rates = {("cpu", "fp32"): 100, ("cpu", "bf16"): 170, ("gpu", "fp32"): 5000}
    mlp = [maker.ok(maker.cell("mlp", *words), rate) for words, rate in rates.items()]
    cnn = [maker.ok(maker.cell("cnn", precision=word), rate) for word, rate in (("fp32", 100), ("bf16", 50))]
    found = jobs(answered([*cnn, maker.ok(maker.cell("rnn"), 9), *mlp]))
    assert [job.name for job in found] == ["mlp train", "cnn train", "rnn train"]
    first, kept, single = found
    names = [(first.name_of(gain.first), round(gain.ratio, 2)) for gain in first.gains]
    assert names == [("PyTorch fp32 on GPU", 50), ("PyTorch bf16", 1.7)]
    low, high = first.gain.bounds
    assert low < 50 < high
    assert (kept.answer.best, kept.name_of(kept.gain.second)) == (None, "PyTorch fp32")
    assert single.gains == []


def test_without_a_job_one_empty_line_is_before_the_remarks(read, maker) -> None:
    failed = read([maker.record(maker.cell(), Status.failed, reason="raised")]).cells
    assert [line.plain for line in gains.summary([], failed, 80)] == ["", "- 1 of 1 cells: 1 failed (raised)."]
