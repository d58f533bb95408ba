import random

import pytest

from accelbench.judging.row import remarks_in, summarise, warnings_of
from accelbench.judging.warnings import Kind
from accelbench.schema.cell import Device, Mode, Protocol, Stop, Verdict
from accelbench.schema.measurement import Block, Epoch, SystemSeries
from fakes import make_cell, make_measurement, make_record, make_served


def remarks_about(system=None, environment=None, cell=None, data=None, **measured):
    cell, measurement = make_cell(**(cell or {})), make_measurement(**measured)
    row = summarise(make_record(cell, environment=environment or {}, measurement=measurement, system=system, data=data))
    return [(kind, text) for kind in Kind for text in remarks_in(row, kind)]


def blocks(seconds):
    return [Block(num_steps=4, num_samples=100, seconds=length) for length in seconds]


def around(level, spread, num):
    rng = random.Random(0)
    return [level * (1 + rng.gauss(0, spread)) for _ in range(num)]


def sampled(*times, **values):
    return SystemSeries(started_boot_s=0.0, t_s=list(times or [1.0]), values=values)


def with_faults(faults, system_percent, **cell):
    used = {"cpu_system_percent": [system_percent], "cpu_utilization_percent": [200.0]}
    return {"system": sampled(page_faults_per_s=[faults], **used), "steady_boot_s": (0.5, 1.5), "cell": cell}


def of_epochs(*num_samples):
    epochs = [Epoch(seconds=1.0, num_samples=num) for num in num_samples]
    return {"epochs": epochs, "blocks": [], "latency_s": [], "cell": {"mode": Mode.train, "protocol": Protocol.fit}}


def busy(percent, **cell):
    """Of a cell with one thread, on two cores. The first sample began before the steady state."""
    system = sampled(0.6, 1.0, cpu_utilization_percent=[200.0, percent])
    environment = {"machine": {"num_threads": 2}}
    return {"threads": 1, "environment": environment, "system": system, "steady_boot_s": (0.5, 1.5), "cell": cell}


STEADY, NOISY = blocks(around(0.1, 0.01, 12)), blocks(around(0.1, 0.25, 12))
GROWING = blocks([0.1 * (1 + 0.02 * place) for place in range(15)])
THROTTLED = blocks([0.1, 0.101, 0.099, 0.1, 0.15, 0.151])  # at the end, which its interval reaches
JUMPING = blocks([0.12, 0.17, 0.1, 0.1, 0.1, 0.11, 0.1, 0.1, 0.1, 0.1])  # slow blocks, which its interval reaches
UNEVEN = "the overall speed differs by -17 %"
OTHERS = sampled(other_cpu_utilization_percent=[80.0])
FAULTS = "try allocator=jemalloc: 26 % of the CPU time is the kernel's, with 58,000"
SLOWED = sampled(
    *range(4),
    cpu_quota_throttled_s=[0.0, 5.0, 5.5, 5.5],
    cpu_thermal_throttles=[1.0, 1.0, 4.0, 9.0],
    gpu_0_throttled=[1.0, 0.0, 1.0, 1.0],
)
SLOW = "slowed down by the CPU quota and the CPU's temperature and the GPU's temperature or power supply"
RESET = sampled(1.0, 2.0, cpu_quota_throttled_s=[8.5, 0.0], cpu_thermal_throttles=[9.0, 0.0])


@pytest.mark.parametrize(
    ("measured", "kind", "texts"),
    [
        ({"blocks": STEADY, "latency_s": around(0.025, 0.02, 100), "settled": True}, None, ()),
        ({"blocks": NOISY, "latency_s": [0.025] * 20, "stop": Stop.limit}, "note", ("noisy: ±31 %",)),
        ({"blocks": GROWING, "latency_s": [0.028] * 20}, "doubt", ("the speed changed by -1",)),
        ({"settled": False, "warmup_total_s": 3.21}, "doubt", ("step times had not settled after 3.2 s of warm-up",)),
        ({"blocks": blocks([0.1] * 3), "latency_s": [0.025] * 9}, "doubt", ("only 3 blocks measured",)),
        ({"blocks": JUMPING, "latency_s": [0.025] * 20}, "doubt", ()),
        ({"blocks": THROTTLED, "latency_s": [0.025] * 20}, "doubt", ("the overall speed differs by -1",)),
        ({"blocks": blocks([*[0.1] * 19, 0.5] * 2), "latency_s": [0.025] * 20}, "doubt", (UNEVEN,)),
        ({"system": OTHERS, "steady_boot_s": (0.5, 1.5)}, "doubt", ("other processes used 80 % of a core during the",)),
        ({"system": SLOWED, "steady_boot_s": (1.0, 2.5)}, "doubt", (SLOW,)),
        ({"system": RESET, "steady_boot_s": (0.5, 2.5)}, None, ()),  # counters that began again
        (with_faults(58000.0, 52.0), "tip", (FAULTS,)),
        (busy(170.0), "doubt", ("its threads wanted 1.7 cores, but threads=1: another library",)),
        (busy(170.0, protocol=Protocol.server), "doubt", ()),
        (with_faults(58000.0, 52.0, device=Device.gpu), None, ()),
        (with_faults(5000.0, 52.0), None, ()),  # too few to be the reason
        ({"warnings": ["no room; no time", "an odd layer"]}, "doubt", ("no room, no time", "an odd layer")),
        ({"notes": ["one; two"]}, "note", ("one, two",)),  # one remark
    ],
)
def test_what_may_be_wrong_with_a_number_is_a_doubt_and_what_its_interval_says_a_note(measured, kind, texts):
    remarks = [text for kind_of_text, text in remarks_about(**measured) if kind is None or kind_of_text == Kind[kind]]
    assert len(remarks) == len(texts)
    assert all(text.startswith(expected) for text, expected in zip(remarks, texts, strict=True))


def test_what_is_doubtful_of_requests():
    grew = {"ended_early": "the queue grows", "verdict": Verdict.fails}
    missed = {"num_errors": 3, "error": "no"}
    doubts = [warnings_of(summarise(make_served(**changes))) for changes in ({}, grew, missed)]
    assert doubts == [[], ["ended early: the queue grows"], ["3 of 1,000 requests have no answer: no"]]
