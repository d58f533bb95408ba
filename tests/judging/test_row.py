from dataclasses import asdict, replace

import pytest

from accelbench.judging.row import MEASURED, bound, summarise
from accelbench.schema.cell import Bound, Mode, Options, Protocol, Status
from accelbench.schema.measurement import Block, Breakdown, Epoch, Generation, SystemSeries, Work
from fakes import make_cell, make_measurement, make_record
from sweep.test_prober import CEILINGS

# The columns that users' scripts may rely on, in the order in which they are promised.
CONTRACT = [
    *("suite", "mode", "engine", "model", "data", "device", "precision", "batch_size", "status", "reason"),
    *("samples_per_s", "samples_per_s_low", "samples_per_s_high", "num_params", "threads", "batch_size_per_device"),
    *("latency_p50_ms", "latency_p99_ms", "compile_s", "peak_device_mb", "peak_host_mb", "energy_j_per_sample"),
    *("mfu", "accuracy"),
]
RATES = [100.0, 90.0, 110.0, 120.0, 80.0, 105.0, 95.0]


def row_of(cell=None, *, system=None, **measured):
    return summarise(make_record(cell, measurement=make_measurement(**measured), system=system))


def blocks(rates):
    return [Block(num_steps=4, num_samples=100, seconds=100 / rate) for rate in rates]


def test_the_promised_columns_are_there_in_order_and_what_is_unknown_is_empty_never_zero():
    row = summarise(make_record(status=Status.failed, reason="it broke"))
    assert [name for name in row if name in CONTRACT] == CONTRACT
    assert list(row) == list(row_of())
    assert row["reason"] == "it broke"
    assert {row[name] for name in MEASURED} == {None}
    bare = row_of(blocks=[], latency_s=[])
    numbers = {name: bare[name] for name in MEASURED if bare[name] is not None}
    assert numbers == {"num_params": 10, "threads": 2, "build_s": 0.1, "device_name": "a CPU", "num_devices": 1}
    waiting = row_of(work=Work(flops=0, bytes=8, num_operators=1))  # which has no share of a ceiling
    assert (waiting["samples_per_s"] is None, waiting["mfu"], waiting["bound"]) == (False, None, None)


def test_tokens_have_their_times_and_rates_by_generation():
    decode_s = [[0.01] * 8 + [0.03 + 0.001 * index] * 2 for index in range(8)]
    text = Generation(prefill_s=[0.1 * (1 + index) for index in range(8)], decode_s=decode_s, cache_bytes=5_000_000)
    row = row_of(cell=make_cell(mode=Mode.generate, batch_size=4), generation=text)
    assert (row["ttft_ms"], row["ttft_ms_low"], row["ttft_ms_high"]) == pytest.approx((450, 100, 800))
    assert (row["tpot_p50_ms"], row["kv_cache_mb"], row["prompt_tokens"]) == pytest.approx((10, 5, 128))
    assert row["tpot_p90_ms"] == pytest.approx(33.5, abs=0.6)
    assert row["tpot_p99_ms"] is None  # of 80 steps
    assert row["decode_tokens_per_s"] == pytest.approx((40 / 0.146 + 40 / 0.148) / 2)
    with pytest.raises(ValueError, match="one or more times for each generation"):
        Generation(prefill_s=[0.1], decode_s=[[]], cache_bytes=0)


def test_a_windows_rate_is_its_blocks_median_with_bounds_unless_they_are_few_and_its_time_is_estimated():
    for rates, bounds in ((RATES, (80, 120)), (RATES[:5], (None, None))):
        row = row_of(blocks=blocks(rates))
        assert row["samples_per_s"] == pytest.approx(100)
        assert (row["samples_per_s_low"], row["samples_per_s_high"]) == pytest.approx(bounds)
    sizes = {"num_train_samples": 600, "num_test_samples": 50}
    for mode, samples in ((Mode.train, 3 * 600), (Mode.infer, 50)):
        row = row_of(make_cell(mode=mode, epochs=3), blocks=blocks(RATES), loss=0.3, **sizes)
        assert (row["time_s"], row["time_provenance"]) == (pytest.approx(samples / 100), "estimated")
        assert (row["accuracy"], row["loss"]) == (None, None)  # that of a window's last batch


@pytest.mark.parametrize(("mode", "seconds"), [(Mode.train, 38.0), (Mode.infer, 6.0)])
def test_a_fits_time_is_measured_and_its_rate_without_the_first_epoch(mode, seconds):
    epochs = [Epoch(seconds=seconds, num_samples=600, loss=0.5) for seconds in (20.0, 6.0, 4.0, 8.0)]
    row = row_of(make_cell(mode=mode, protocol=Protocol.fit, epochs=4), blocks=[], epochs=epochs)
    assert (row["time_s"], row["time_provenance"]) == (seconds, "measured")
    assert row["samples_per_s"] == pytest.approx(100)
    assert row["samples_per_s_low"] is None  # three epochs are too few for bounds
    row = row_of(make_cell(mode=mode, protocol=Protocol.fit), blocks=[], epochs=epochs[:1])
    assert (row["time_s"], row["samples_per_s"]) == (20.0, 30.0)


@pytest.mark.parametrize(("num", "shown"), [(5, ""), (6, "p50"), (64, "p50 p90"), (662, "p50 p90 p99")])
def test_latency_tails_are_withheld_where_the_samples_do_not_support_them(num, shown):
    row = row_of(latency_s=[i / 1000 for i in range(1, num + 1)])
    percentiles = {name for name in ("p50", "p90", "p99") if row[f"latency_{name}_ms"] is not None}
    assert percentiles == set(shown.split())
    assert all(row[f"latency_{name}_ms_low"] <= row[f"latency_{name}_ms"] for name in percentiles)
    if num == 662:
        assert row["latency_p99_ms"] == pytest.approx(656)  # the 656th of 662
        assert row["latency_p50_ms"] == pytest.approx(331.5)  # between the middle two
    if num == 6:
        assert [row[f"latency_p50_ms{end}"] for end in ("_low", "", "_high")] == pytest.approx([1.0, 3.5, 6.0])


def test_the_parts_of_steps_memory_and_utilisation():
    steps = {"latency_s": [0.010, 0.020, 0.030], "launch_s": [0.001, 0.009, 0.002], "data_s": [0.003, 0.001, 0.002]}
    steps |= {"copy_in_s": [0.004, 0.004, 0.005], "copy_out_s": [0.0, 0.006, 0.007]}
    # Medians; 3, 9 and 16 ms are left for computing.
    expected = {"launch_p50_ms": 2, "data_wait_ms": 2, "copy_in_ms": 4, "compute_ms": 9, "copy_out_ms": 6}
    expected["data_wait_share"] = 0.1
    # Means, which add up to the steps.
    phases = {"data_wait": [1e-3] * 8, "forward": [3e-3, 5e-3] * 4, "framework": [0.0] * 8}
    breakdown = Breakdown(phases_s=phases, undisturbed_s=[4.9e-3] * 8)
    expected |= {"breakdown_data_wait_ms": 1, "breakdown_forward_ms": 4, "breakdown_framework_ms": 0}
    expected |= {"breakdown_backward_ms": None, "breakdown_disturbance": 5 / 4.9 - 1}
    # Means over the steady state.
    values = {
        "host_memory_mb": [900.0, 100.0, None, 300.0, 900.0],
        "cpu_utilization_percent": [10.0, None, 150.0, 50.0, 10.0],
        "cpu_system_percent": [9.0, None, 20.0, 30.0, 9.0],
        "page_faults_per_s": [0.0, None, 500.0, 1500.0, 0.0],
        "gpu_0_memory_mb": [1.0, None, 10.0, 30.0, 1.0],
        "gpu_0_temperature_c": [30.0, 40.0, 60.0, None, 30.0],
        "gpu_0_sm_clock_mhz": [210.0, 1410.0, None, 1390.0, 210.0],
    }
    system = SystemSeries(started_boot_s=1000.0, t_s=[0, 0.1, 0.2, 0.3, 0.4], values=values, peak_host_bytes=35 * 10**7)
    expected |= {"peak_host_mb": 350, "mean_host_mb": 200, "cpu_utilization_percent": 100, "system_time_share": 0.25}
    expected |= {"page_faults_per_s": 1000, "gpu_temperature_c": 50, "gpu_clock_mhz": 1400, "peak_device_mb": 2.5}
    expected["mean_gpu_used_mb"] = 20
    measured = {"breakdown": breakdown, "peak_device_bytes": 2_500_000, "steady_boot_s": (1000.05, 1000.35)}
    row = row_of(system=system, **steps, **measured)
    assert {name: row[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(("until_s", "power_w"), [(2.5, 300), (1.4, None)])
def test_the_power_of_a_gpu_is_that_of_its_steady_state_only(until_s, power_w):
    # Each reading is the mean of the second before it, which the warm-up ends in.
    values = {"gpu_0_power_w": [100.0, 100.0, 200.0, 300.0, 300.0, 300.0]}
    system = SystemSeries(started_boot_s=1000.0, t_s=[0.0, 0.5, 1.0, 1.5, 2.0, 2.5], values=values)
    assert row_of(system=system, steady_boot_s=(1000.5, 1000 + until_s))["gpu_power_w"] == power_w


# 0.2 s of arithmetic in fp32, 0.1 s of memory traffic, 0.01 s of launches.
WORK = Work(flops=2 * 10**11, bytes=10**10, num_operators=1000)


@pytest.mark.parametrize(
    ("work", "precision", "word"),
    [
        *((WORK, "fp32", Bound.compute), (WORK, "bf16_mixed", Bound.memory), (WORK, "fp64", None)),
        (replace(WORK, num_operators=3 * 10**4), "fp32", Bound.launch),
        (replace(WORK, num_operators=10**6), "fp32", Bound.compute),  # more than the whole step
        (replace(WORK, flops=None), "fp32", None),
    ],
)
def test_the_bound_is_the_resource_with_the_longest_least_time(work, precision, word):
    assert bound(work, 0.5, CEILINGS, precision) == word
    assert bound(work, 0.5, None, precision) is None


@pytest.mark.parametrize(
    ("waits", "word"),
    [
        ({}, Bound.compute),
        *(({"data_s": 0.002}, Bound.compute), ({"data_s": 0.006}, Bound.data)),
        *(({"copy_in_s": 0.002}, Bound.compute), ({"copy_in_s": 0.002, "copy_out_s": 0.004}, Bound.copy)),
    ],
)
def test_data_or_copying_bounds_a_step_that_waits_for_them_for_more_than_half_of_it(waits, word):
    parts = {name: [seconds] * 64 for name, seconds in waits.items()}
    measured = make_measurement(work=Work(flops=2 * 10**9, bytes=10**6, num_operators=10), **parts)
    environment = {"ceilings": asdict(CEILINGS)}
    for name in (None, "compile", "cuda_graphs"):
        expected = None if name and word == Bound.compute else word
        cell = make_cell(options=Options(**{name: True} if name else {}))
        row = summarise(make_record(cell, environment=environment, measurement=measured))
        assert (row["bound"], row["mfu"]) == (expected, pytest.approx(0.2))
