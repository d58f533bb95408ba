from dataclasses import replace

from accelbench.report.tables import batch_scaling


def test_the_best_batch_is_that_of_the_highest_throughput_free_and_within_limits(scaled):
    table = batch_scaling.best_batch(scaled)
    found = {row[1].text: dict(zip(table.headings, (entry.text for entry in row), strict=True)) for row in table.rows}
    # A batch of 8 at 290 samples/s takes 27.6 ms, one of 16 at 300 takes 53.3; within 10 ms there is the 1 alone.
    assert found["cpu"]["best batch"] == "16"
    assert found["cpu"]["best batch within 10 ms"] == "–"
    assert found["cpu"]["best batch within 50 ms"] == "8"
    assert found["gpu"]["best batch within 10 ms"] == "8"
    sentence = batch_scaling.conclusions(scaled)[0]
    assert sentence.startswith(
        "scaling_cnn_small on cpu in fp32: batch 16 is fastest, 300 samples/s, 3.00 times batch 1"
    )
    assert sentence.endswith("batch 8 comes within 5 % of it.")


def test_conclusions_compare_devices_too(scaled):
    speed = "gpu is 5.00 times as fast as cpu with batch 1, 5.00 times with batch 16 (samples/s)."
    assert batch_scaling.conclusions(scaled)[-1] == f"scaling_cnn_small in fp32: {speed}"


def test_a_gpus_memory_is_named_where_it_is_known(scaled):
    gpu = scaled.cells[-1]
    machine = {**gpu.record.environment["machine"], "gpus": ["Example GPU"], "gpu_details": [{"memory_gb": 85}]}
    record = replace(gpu.record, environment={**gpu.record.environment, "machine": machine})
    table = batch_scaling.devices(replace(scaled, cells=[replace(gpu, record=record)]))
    assert "85 GB" in [entry.text for entry in table.rows[0]]
