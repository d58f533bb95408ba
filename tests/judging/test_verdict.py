import dataclasses

import pytest

from accelbench.judging.row import MEASURED, summarise
from accelbench.judging.verdict import is_retried, judge, load_beside, why_disturbed
from accelbench.schema.cell import Allocator, Device, ModelSpec, Options, Precision, Status
from accelbench.schema.measurement import Block, SystemSeries, Work
from accelbench.schema.record import DEVICE_MEASUREMENTS
from beside import BUSY, OTHERS, OWN, REASON, STEAL, WAITING, make_record, quiet
from fakes import make_ceilings, make_cell, make_measurement

JEMALLOC = Options(allocator=Allocator.jemalloc)


@pytest.mark.parametrize(
    ("cell", "ran", "why"),
    [
        ({}, {}, None),
        ({}, {"allocator": "jemalloc"}, None),  # the user's variables, which are noted
        ({"options": JEMALLOC}, {"allocator": "jemalloc"}, None),
        ({}, {"warnings": ["slow"]}, None),
        ({"device": Device.gpu}, {"device": "cpu"}, "asked for device gpu, but cpu ran"),
        ({"devices": 4}, {"num_devices": 1}, "asked for 4 devices, but 1 ran"),
        ({"precision": Precision.fp16_mixed}, {"precision": "bf16"}, "asked for precision fp16_mixed, but bf16 ran"),
        ({"options": JEMALLOC}, {"allocator": "glibc"}, "asked for allocator jemalloc, but glibc ran"),
        ({"options": JEMALLOC}, {}, "asked for allocator jemalloc, but an unknown one ran"),
        ({}, {"defects": ["the loss is nan", "too fast"]}, "the loss is nan; too fast"),
        ({}, {"precision": "tf32", "defects": ["set"]}, "asked for precision fp32, but tf32 ran; set"),
    ],
)
def test_another_device_or_precision_is_not_what_was_asked(cell, ran, why):
    assert judge(make_cell(**cell), make_measurement(**ran)) == why


def test_a_speed_far_above_the_ceiling_is_invalid():
    measured = make_measurement(work=Work(flops=320_000))
    slow, fast = (make_ceilings(flops_per_s={"fp32": rate}, probed=["fp32"]) for rate in (1e7, 1e9))
    assert judge(make_cell(batch_size=32), measured, fast) is None
    assert judge(make_cell(batch_size=32), measured, slow) == (
        "3.20 times as many operations per second as the device's ceiling (peak rate): algorithms that "
        "save operations reach at most 2.25 times the ceiling"
    )


def test_more_samples_than_were_asked_for_are_no_samples_unless_the_user_counts_them():
    many = make_measurement(blocks=[Block(num_steps=10, num_samples=321, seconds=0.1)])
    assert judge(make_cell(), many) == "more than 32 samples were counted in a step"
    assert judge(make_cell(model=ModelSpec(name="own", samples="own.count")), many) is None


THROTTLED = {"cpu_quota_throttled_s": [1.0, 2.5, 4.0]}


def load(others, used, waiting, steal=0.0):
    return {OTHERS: [others] * 3, OWN: [used] * 3, WAITING: [waiting] * 3, STEAL: [steal] * 3}


@pytest.mark.parametrize(
    ("values", "num_cores", "why"),
    [
        pytest.param(load(2, 199, 3), 2, None, id="quiet"),
        pytest.param(load(3, 197, 210), 2, None, id="four threads of its own on two cores"),
        pytest.param(load(101, 99, 4), 2, None, id="one thread, and a busy process on the other core"),
        pytest.param(load(100, 1595, 2), 17, None, id="a core was free for the other process"),
        pytest.param(load(30, 172, 28), 2, "others used 0.3 of 2 cores", id="a third of a core, which the cell wanted"),
        pytest.param(load(100, 1500, 130), 16, "others used 1.0 of 16 cores", id="one process, no core free"),
        pytest.param(load(1, 150, 2, 48), 2, "the hypervisor gave 0.5 of 2 cores to other machines", id="a hypervisor"),
        pytest.param(
            load(1, 50, 2, 12), 2, "the hypervisor gave 0.1 of 2 cores to other machines", id="of an idle cell"
        ),
        # On a host of 8 cores, whose others are busy, a quota that stops threads is the cell's own.
        pytest.param(load(300, 400, 1200), 8, "others used 3.0 of 8 cores", id="busy cores"),
        pytest.param(load(300, 400, 1200) | THROTTLED, 8, None, id="a quota"),
    ],
)
def test_who_is_accused(values, num_cores, why):
    assert why_disturbed(make_record(values, num_cores=num_cores)) == why


def test_without_knowledge_nothing_is_disturbed_and_the_nearest_samples_are_some():
    for record in (make_record(None), make_record(environment={"busy": "allowed"})):
        assert why_disturbed(record) is None
        assert summarise(record)["samples_per_s"] == pytest.approx(3200)
    assert "busy" in DEVICE_MEASUREMENTS  # that it is allowed is no part of an identity
    between = dataclasses.replace(make_record().measurement, steady_boot_s=(101.2, 101.3))  # two samples
    assert why_disturbed(dataclasses.replace(make_record(), measurement=between)) == REASON
    failed = {name: [None, *samples[1:]] for name, samples in BUSY.items()}  # the first sample says nothing
    assert why_disturbed(make_record(failed)) == REASON
    nothing = SystemSeries(started_boot_s=1.0, t_s=[0.1], values={OTHERS: [None]}, num_cores=2)
    assert load_beside(nothing) is None
    assert load_beside(None) is None


def test_its_row_has_the_reason_in_the_place_of_numbers_and_retry_measures_it_again():
    row = summarise(make_record())
    assert {name for name in MEASURED if row[name] is not None} == {"device_name", "disturbed"}
    assert row["disturbed"] == REASON
    assert list(row) == list(summarise(make_record(quiet())))
    assert is_retried(make_record())
    assert not is_retried(make_record(quiet()))
    invalid = dataclasses.replace(make_record(), status=Status.invalid, reason="wrong")  # a reason of its own
    assert (why_disturbed(invalid), is_retried(invalid)) == (None, False)
