"""What ran beside what was asked for."""

import pytest

from accelbench.judging.asked import judge
from accelbench.schema.cell import Options
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Allocator, Device, Precision
from accelbench.schema.workload import ModelSpec
from fakes import make_cell, make_measurement

JEMALLOC = Options(allocator=Allocator.jemalloc)


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


@pytest.mark.parametrize(
    ("num_samples", "model", "told"),
    [
        (321, {}, "it counts more than 32 samples a step"),
        (300, {}, None),  # the last batch of an epoch
        (321, {"model": ModelSpec(name="own", samples="own.count")}, None),
    ],
)
def test_more_samples_than_were_asked_for_are_no_samples_unless_the_user_counts_them(num_samples, model, told):
    blocks = [Block(num_steps=10, num_samples=num_samples, seconds=0.1)]
    assert judge(make_cell(**model), make_measurement(blocks=blocks)) == told
