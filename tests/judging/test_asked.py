"""What ran beside what was asked for, and claims of a cell's process beside what its host saw."""

import pytest

from accelbench.judging.asked import host_checks, host_warnings, judge
from accelbench.schema.cell import Options
from accelbench.schema.measurement import Block, Epoch, Evaluation, Witnessed
from accelbench.schema.vocab import Allocator, Device, Precision, Promise
from accelbench.schema.workload import ModelSpec
from fakes import make_cell, make_measurement

JEMALLOC = Options(allocator=Allocator.jemalloc)
CLAIMED_S = 8 * 0.1 + 64 * 0.01  # of `make_measurement`
COUNTED = {"model": ModelSpec(name="own", samples="own.count")}
EPOCH = Epoch(seconds=2.0, num_samples=100, evaluation=Evaluation(num_samples=10, seconds=1.0, loss=1.0))
EPOCHS = {"blocks": [], "latency_s": [], "epochs": [EPOCH] * 2}


@pytest.mark.parametrize(
    ("cell", "ran", "told"),
    [
        ({}, {}, None),
        ({}, {"allocator": "jemalloc"}, None),  # the user's variables, which are noted
        ({"options": JEMALLOC}, {"allocator": "jemalloc"}, None),
        ({}, {"warnings": ["slow"]}, None),
        ({"device": Device.gpu}, {"device": "cpu"}, "asked for device gpu, but cpu ran"),
        ({"devices": 4}, {"num_devices": 1}, "asked for 4 devices, but 1 ran"),
        ({"device": Device.tpu}, {"device": "xla_cpu"}, "asked for device tpu, but xla_cpu ran"),
        ({"precision": Precision.fp16_mixed}, {"precision": "bf16"}, "asked for precision fp16_mixed, but bf16 ran"),
        ({}, {"precision": "tf32"}, "asked for precision fp32, but tf32 ran"),
        ({"options": JEMALLOC}, {"allocator": "glibc"}, "asked for allocator jemalloc, but glibc ran"),
        ({"options": JEMALLOC}, {}, "asked for allocator jemalloc, but an unknown one ran"),
        ({}, {"defects": ["the loss is nan", "too fast"]}, "the loss is nan; too fast"),
        ({}, {"precision": "tf32", "defects": ["set"]}, "asked for precision fp32, but tf32 ran; set"),
    ],
)
def test_another_device_or_precision_is_not_what_was_asked(cell, ran, told):
    assert judge(make_cell(**cell), make_measurement(**ran)) == told


def seen(timed_s=CLAIMED_S, **changes):
    known = {"num_sections": 1, "timed_s": timed_s, "late_s": 0.0, "num_cores": 2, "num_allowed_cores": 2}
    return Witnessed(**known | changes)


def reason(witnessed=None, cell=None, **changes):
    return judge(make_cell(**cell or {}), make_measurement(**changes), witnessed or seen())


@pytest.mark.parametrize(
    ("witnessed", "changes", "is_valid"),
    [
        *[(seen(factor * CLAIMED_S), {}, True) for factor in (0.7, 0.9, 1.0, 1.2)],
        *[(seen(factor * CLAIMED_S), {}, False) for factor in (0.3, 0.5, 1.5, 4.0)],
        (seen(5.0), {}, False),
        (seen(5.0), {"dropped_s": 5.0 - CLAIMED_S}, True),
        (seen(5.0, late_s=4.0), {}, True),  # a host that was stopped knows less
        (seen(6.0), EPOCHS, True),  # epochs and their evaluations are claims too
        (seen(4.0), EPOCHS, False),
    ],
)
def test_times_are_valid_if_the_hosts_clock_confirms_them(witnessed, changes, is_valid):
    found = reason(witnessed, **changes)
    assert found is None if is_valid else "s of measuring, and the host's clock saw " in found


def test_more_samples_than_were_asked_for_are_no_samples_unless_the_user_counts_them():
    more = {"blocks": [Block(num_steps=10, num_samples=321, seconds=0.1)] * 8}
    assert reason(**more) == "its process claims more than 32 samples a step"
    assert reason(cell=COUNTED, **more) is None
    short = {"blocks": [Block(num_steps=10, num_samples=300, seconds=0.1)] * 8}
    assert reason(**short) is None  # the last batch of an epoch


@pytest.mark.parametrize(("threads", "cores", "bound"), [(2, 2, False), (2, 1, True), (1, 1, False), (None, 1, False)])
def test_fewer_cores_than_threads_are_a_defect_if_the_machine_has_more(threads, cores, bound):
    assert (reason(seen(num_cores=cores), threads=threads) is not None) == bound
    assert reason(seen(num_cores=1, num_allowed_cores=1), threads=threads) is None  # as taskset has it


def test_cores_that_are_bound_on_purpose_accuse_nobody():
    few = seen(num_cores=1, is_bound_outside=True)
    assert reason(few, threads=2) is None
    (warning,) = host_warnings(make_cell(), make_measurement(threads=2), few)
    assert warning.startswith("OpenMP's variables bound the process to 1 of 2 cores")
    assert reason(seen(num_cores=1), {"device": Device.gpu}, threads=2, device="gpu") is None
    assert list(host_warnings(make_cell(device=Device.gpu), make_measurement(threads=2), few)) == []


def test_what_the_host_observed_is_said_and_what_it_did_not_is_not_fine():
    def shares(cell, witnessed):
        return {each.promise: each.share for each in host_checks(cell, make_measurement(), witnessed)}

    assert shares(make_cell(), seen(2 * CLAIMED_S)) == {Promise.times: pytest.approx(0.5), Promise.counts: 1.0}
    assert shares(make_cell(**COUNTED), None) == {Promise.times: None, Promise.counts: None}
