from accelbench.schema.cell import Mode
from five_studies import beside, devices
from report.rows import texts


def test_only_times_of_the_same_job_and_settings_are_compared_as_ratios_on_one_axis(read, maker) -> None:
    cells = [maker.cell(), maker.cell(device="gpu"), maker.cell("cnn", batch_size=64), maker.cell(mode=Mode.infer)]
    sweep = read([maker.ok(cell, rate) for cell, rate in zip(cells, (1000, 34_000, 500, 9000), strict=True)])
    found = beside.pairs(sweep)  # not of another batch, nor of inference alone, which is a part of testing
    assert [(each.network, each.device, each.own_ratio.text) for each in found] == [
        *(("mlp", "cpu", "~4.19"), ("mlp", "gpu", "~0.982")),
    ]
    table = beside.table(found)
    ((slower,), (faster,)), (equal, label) = table.dots, table.axis[0]
    assert (label, slower.look, faster.place < equal < slower.place) == ("1", "cpu filled", True)
    assert beside.sentence(sweep, found).startswith(
        "Speed-ups in the study: gpu over cpu 2.77 to 34.3, tpu over cpu 0.962 to 1.01 times. Here: gpu over cpu 34.0. "
        "On the cpu, pytorch takes ~4.19 times as long as published (1 pair). On the gpu, "
    )


def test_the_studies_claims_and_devices_stand_beside_what_was_measured(read, maker, scaled) -> None:
    said = beside.sentence(scaled, beside.pairs(scaled))
    assert "gpu over cpu 4.95 to 6.97 times. Here: gpu over cpu 5.00." in said
    assert "Its best batch is 8; fastest here: on the cpu 16 (1.03 times batch 8, " in said
    alone = read([maker.ok(maker.cell("pets_cnn", batch_size=32, epochs=10), 100)], study="002")
    assert beside.sentence(alone, beside.pairs(alone)) == (
        "Speed-ups in the study: tpu over gpu 4.83 to 5.00 times. Here: not measured. "
        "The study's job, 10 x 20,000 samples, takes ~2,000 s with pytorch on our cpu."
    )
    assert [(*row.values(),)[:4] for row in texts(devices.table(alone))] == [
        ("published", "gpu", "NVIDIA Tesla T4", "40 streaming multiprocessors, 2,560 CUDA cores"),
        ("published", "tpu", "Google Cloud TPU", "8 cores with systolic arrays"),
        ("ours", "cpu", "a CPU", "2 cores, 4 threads"),
    ]
