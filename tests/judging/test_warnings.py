import random

import pytest

from accelbench.judging.row import remarks_in, summarise
from accelbench.judging.warnings import Kind
from accelbench.schema.measurement import Block, SystemSeries
from accelbench.schema.vocab import Device, Stop
from fakes import make_cell, make_measurement, make_record


def remarks_about(system=None, environment=None, cell=None, **measured):
    """The columns of the row, each with its kind."""
    cell, measurement = make_cell(**(cell or {})), make_measurement(**measured)
    row = summarise(make_record(cell, environment=environment or {}, measurement=measurement, system=system))
    return [(kind, text) for kind in Kind for text in remarks_in(row, kind)]


def warnings_about(*args, **measured):
    found = remarks_about(*args, **measured)
    assert {kind for kind, _ in found} <= {Kind.doubt}
    return [text for _, text in found]


def blocks(seconds):
    return [Block(num_steps=4, num_samples=100, seconds=each) for each in seconds]


def around(level, spread, num, seed=0):
    rng = random.Random(seed)
    return [level * (1 + rng.gauss(0, spread)) for _ in range(num)]


def test_a_steady_measurement_has_no_warnings():
    assert warnings_about(blocks=blocks(around(0.1, 0.01, 12)), latency_s=around(0.025, 0.02, 100), settled=True) == []


@pytest.mark.parametrize(
    ("step_s", "device", "warns"),
    [(0.001, "cpu", True), (0.1, "cpu", True), (0.022, "cpu", False), (0.001, "gpu", True), (0.1, "gpu", False)],
)
def test_a_median_step_that_does_not_fit_the_blocks_is_warned_of(step_s, device, warns):
    found = warnings_about(blocks=blocks(around(0.1, 0.01, 12)), latency_s=[step_s] * 20, device=device)
    assert [warning for warning in found if "gives" in warning] == found
    assert bool(found) == warns
    if step_s == 0.001:
        assert found[0].startswith("the median step of 1.00 ms gives 25,000 samples/s, and blocks of steps ")


@pytest.mark.parametrize(("stop", "words"), [(Stop.noisy, ", and more blocks would not help"), (Stop.limit, "")])
def test_a_noisy_cell_is_marked_and_keeps_its_numbers(stop, words):
    ((kind, text),) = remarks_about(blocks=blocks(around(0.1, 0.25, 12)), latency_s=[0.025] * 20, stop=stop)
    assert kind == Kind.note  # its interval says it
    assert text.startswith("noisy: samples/s are known to ")
    assert text.endswith(f"% only{words}")


OTHERS = SystemSeries(started_boot_s=0.0, t_s=[1.0], values={"other_cpu_utilization_percent": [80.0]})


@pytest.mark.parametrize(
    ("found", "kind", "told"),
    [
        ({"blocks": blocks([0.1 * (1 + 0.02 * place) for place in range(15)])}, "doubt", "the speed changed by -1"),
        ({"settled": False, "warmup_total_s": 3.21}, "doubt", "step times had not settled after 3.2 s of warm-up"),
        ({"latency_s": [*around(0.01, 0.02, 92), *[0.05] * 8]}, "note", "8 of 100 steps are outliers"),
        ({"clock_drift": 0.01}, "doubt", "the clock ran +1.00 % against the machine's raw clock"),
        ({"clock_drift": 5e-4}, None, None),
        ({"environment": {"machine": {"num_threads": 8}}}, "tip", "more threads may be faster: 2 on 8 cores"),
        ({"environment": {"machine": {"num_threads": 2}}}, None, None),
        ({"blocks": blocks([0.1] * 3)}, "doubt", "only 3 blocks were measured"),
        ({"blocks": blocks([0.001, *[0.1] * 7])}, "doubt", "1 of 8 blocks are shorter than 0.01 s"),
        ({"system": OTHERS, "steady_boot_s": (0.5, 1.5)}, "doubt", "other processes used 80 % of a core during the"),
        ({"warnings": ["a check failed"]}, "doubt", "a check failed"),
        ({"notes": ["calibrated"]}, "note", "calibrated"),
    ],
)
def test_what_may_be_wrong_with_a_number_is_a_doubt_and_what_its_interval_says_a_note(found, kind, told):
    said = remarks_about(**found)
    assert any(each == Kind[kind] and text.startswith(told) for each, text in said) if told else said == []


def test_what_slowed_the_machine_down_in_the_steady_state_is_warned_of():
    system = SystemSeries(
        started_boot_s=100.0,
        t_s=[0.0, 1.0, 2.0, 3.0],
        values={
            "cpu_quota_throttled_s": [0.0, 5.0, 5.5, 5.5],
            "cpu_thermal_throttles": [1.0, 1.0, 4.0, 9.0],
            "gpu_0_throttled": [1.0, 0.0, 1.0, 1.0],
        },
    )
    assert warnings_about(system, steady_boot_s=(101.0, 102.5)) == [
        "the CPU quota was used up for 0.5 s",
        "the CPU's temperature slowed it down 3 times",
        "GPU 0 was slowed down by its temperature or its power supply in 1 of 2 samples",
    ]
    assert warnings_about(system, steady_boot_s=(102.6, 104.0)) == [
        "GPU 0 was slowed down by its temperature or its power supply in 1 of 1 samples"
    ]


def with_faults(faults, system_percent, busy_percent=200.0):
    values = {"page_faults_per_s": [faults], "cpu_system_percent": [system_percent]}
    values["cpu_utilization_percent"] = [busy_percent]
    return SystemSeries(started_boot_s=0.0, t_s=[1.0], values=values)


@pytest.mark.parametrize(
    ("system", "cell", "told"),
    [
        (with_faults(58000.0, 52.0), {}, True),
        (with_faults(58000.0, 52.0), {"device": Device.gpu}, False),
        (with_faults(58000.0, 8.0), {}, False),  # 4 % of the time
        (with_faults(5000.0, 52.0), {}, False),  # too few to be the reason
        (with_faults(None, 52.0), {}, False),
    ],
)
def test_a_tip_says_what_may_help_where_page_faults_cost_a_cpu_much_time(system, cell, told):
    why = "26 % of the CPU time is the kernel's, with 58,000 page faults a second"
    expected = Kind.tip, f"another allocator may be faster, such as allocator=jemalloc: {why}"
    assert remarks_about(system, steady_boot_s=(0.5, 1.5), cell=cell) == ([expected] if told else [])
