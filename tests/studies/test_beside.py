from accelbench.schema.vocab import Engine, Mode
from five_studies import beside
from report.conftest import inferring


def test_only_times_of_the_same_job_and_settings_are_compared_as_ratios_on_one_axis(read, maker) -> None:
    cells = [maker.cell(), maker.cell(device="gpu"), maker.cell("cnn", batch_size=64), maker.cell(mode=Mode.infer)]
    sweep = read([maker.ok(cell, rate) for cell, rate in zip(cells, (1000, 34_000, 500, 9000), strict=True)])
    found = beside.pairs(sweep)  # not of another batch, nor of inference alone, which is a part of testing
    assert [(each.network, each.device, each.ratio(Engine.lightning).text) for each in found] == [
        *(("mlp", "cpu", "~4.19"), ("mlp", "gpu", "~0.982")),
    ]
    table = beside.table(found)
    (one, line), *_ = sorted((label, place) for place, label in table.axis if label == "1")
    (slower,), (faster,) = table.dots
    assert (one, faster.place < line < slower.place, slower.look) == ("1", True, "cpu")
    assert beside.sentence(sweep, found) == (
        "Speed-ups in the study: gpu over cpu 2.77 to 34.3, tpu over cpu 0.962 to 1.01 times. Here: gpu over cpu 34.0. "
        "On the cpu, lightning takes ~4.19 times as long as published (1 pair). "
        "On the gpu, lightning takes ~0.982 times as long as published (1 pair)."
    )


def test_the_studies_claims_stand_beside_what_was_measured(read, maker, scaled) -> None:
    said = beside.sentence(scaled, beside.pairs(scaled))
    assert "gpu over cpu 4.00 to 6.97 times. Here: gpu over cpu 5.00." in said
    assert said.endswith(
        "Its best batch is 8; fastest here: on the cpu 16 (1.03 times batch 8), on the gpu 16 (1.03 times batch 8)."
    )
    records = [inferring(maker, "resnet18", device, rate=rate) for device, rate in (("gpu", 500), ("tpu", 100))]
    sweep = read(records, study="000")
    assert beside.sentence(sweep, []) == (
        "The study's headline, gpu over cpu 744.41, tpu over cpu 48.28, gpu over tpu 15.42 times, is of launch times: "
        "end to end, the same runs give 127.0, 0.8386, 151.5. Here: gpu over tpu 5.00."
    )
    alone = read([maker.ok(maker.cell("pets_cnn", batch_size=32, epochs=10), 100)], study="002")
    assert beside.pairs(alone) == []
    assert beside.sentence(alone, []) == (
        "Speed-ups in the study: tpu over gpu 4.83 to 5.00 times. Here: not measured. "
        "The study's job, 10 x 20,000 samples, takes ~2,000 s with lightning on our cpu."
    )


def test_of_very_many_times_one_of_each_network_and_device_is_shown(read, maker) -> None:
    names = ("resnet18", "resnet34", "resnet50", "resnet101", "vgg11", "vgg16")
    sweep = read([inferring(maker, name, batch_size=size) for name in names for size in (16, 32, 64)], study="000")
    found = beside.pairs(sweep)
    assert [each.network for each in found] == [name for name in names for _ in ("i7", "EPYC")]
    assert {each.job for each in found} == {"fp32, batch 16"}
