import pytest

from accelbench.judging.asked import judge
from accelbench.schema.cell import Options
from accelbench.schema.vocab import Allocator, Device, Precision
from fakes import make_cell, make_measurement

JEMALLOC = Options(allocator=Allocator.jemalloc)


def test_what_ran_as_asked_is_good():
    assert judge(make_cell(), make_measurement()) is None
    assert judge(make_cell(), make_measurement(allocator="jemalloc")) is None  # the user's variables, which are noted
    assert judge(make_cell(options=JEMALLOC), make_measurement(allocator="jemalloc")) is None


@pytest.mark.parametrize(
    ("cell", "ran", "told"),
    [
        ({"device": Device.gpu}, {"device": "cpu"}, "asked for device gpu, but cpu ran"),
        ({"devices": 4}, {"num_devices": 1}, "asked for 4 devices, but 1 ran"),
        ({"device": Device.tpu}, {"device": "xla_cpu"}, "asked for device tpu, but xla_cpu ran"),
        (
            {"precision": Precision.fp16_mixed},
            {"precision": "bf16_mixed"},
            "asked for precision fp16_mixed, but bf16_mixed ran",
        ),
        ({"precision": Precision.fp32}, {"precision": "tf32"}, "asked for precision fp32, but tf32 ran"),
        ({"options": JEMALLOC}, {"allocator": "glibc"}, "asked for allocator jemalloc, but glibc ran"),
        ({"options": JEMALLOC}, {}, "asked for allocator jemalloc, but an unknown one ran"),
    ],
)
def test_another_device_or_precision_is_not_what_was_asked(cell, ran, told):
    assert judge(make_cell(**cell), make_measurement(**ran)) == told


def test_defects_make_the_numbers_false_and_warnings_do_not():
    assert judge(make_cell(), make_measurement(defects=["the loss is nan", "too fast"])) == "the loss is nan; too fast"
    assert judge(make_cell(), make_measurement(warnings=["slow"])) is None


def test_what_made_another_precision_run_is_named_beside_it():
    found = make_measurement(precision="tf32", defects=["its code changed a setting"])
    assert judge(make_cell(), found) == "asked for precision fp32, but tf32 ran; its code changed a setting"


def test_fewer_devices_than_were_asked_for_are_no_measurement():
    assert judge(make_cell(devices=2), make_measurement()) == "asked for 2 devices, but 1 ran"
