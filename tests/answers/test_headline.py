import pytest

from accelbench.answers import headline
from accelbench.schema.cell import Engine, Mode, Options, Status


def test_the_headline_says_what_is_missing_and_what_is_in_doubt(cells, maker) -> None:
    """Networks in order of importance; devices only where they differ; a doubt of an answer before others."""
    rates = {("mlp", "pytorch"): 1000, ("mlp", "keras"): 1010, ("cnn", "pytorch"): 100, ("cnn", "keras"): 300}
    made = [maker.ok(maker.cell(model, engine=Engine(engine)), rate) for (model, engine), rate in rates.items()]
    made[3] = maker.ok(made[3].cell, 300, warnings=["the loader waited"], settled=False, warmup_total_s=1.0)
    beside = maker.beside_others(maker.ok(maker.cell("rnn"), 9))
    made = [
        beside,
        *made,
        maker.ok(maker.cell("cnn", precision="bf16"), 150),
        maker.ok(maker.cell(mode=Mode.infer), 5, maker.stand_in),
    ]
    gone = {"gpu": "no NVIDIA driver (libnvidia-ml)", "tpu": "no chip"}
    made += [maker.record(maker.cell(device=word), Status.skipped, reason=why) for word, why in gone.items()]
    made += [maker.record(maker.cell("lstm"), Status.failed, reason="raised " + 12 * "slowly ")]
    found = cells(made)
    assert headline.notices(found) == {
        "Missing": "3 of 10 cells: 1 skipped (no NVIDIA driver), 1 skipped (no chip), "
        "1 failed (raised slowly slowly slowly slowly slowly slowly slowly ...).",
        "In doubt": "2 of 7 cells in doubt",
        "Stand-ins": "stand-ins for mnist: only speeds are valid",
    }


@pytest.mark.parametrize("width", [72, 80, 120])
def test_each_cell_has_a_bar_as_long_as_its_speed_on_a_line_that_fits(answered, maker, width) -> None:
    rates = {"fp32": 1_230_000, "bf16": 4_560_000}
    cells = [maker.cell(precision=word, options=Options(channels_last=True, freeze=True)) for word in rates]
    (answer,) = answered([maker.ok(cell, rate) for cell, rate in zip(cells, rates.values(), strict=True)])
    _, _, *lines, _ = (line.plain for line in headline.of_one(answer, width, 12))
    assert max(map(len, lines)) <= width
    assert [line.split("samples/s")[0].split()[-1] for line in lines] == ["4,560,000", "1,230,000"]
    longer, shorter = (line.count("━") for line in lines)
    assert longer / shorter == pytest.approx(4.56 / 1.23, rel=0.35)
