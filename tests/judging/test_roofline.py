import dataclasses

import pytest

from accelbench.judging.roofline import bound
from accelbench.judging.row import summarise
from accelbench.schema.cell import Options
from accelbench.schema.measurement import Work
from accelbench.schema.vocab import Bound
from fakes import make_cell, make_measurement, make_record
from schema.test_ceilings import CEILINGS

# 0.2 s of arithmetic in fp32, 0.1 s of memory traffic, 0.01 s of launches.
WORK = Work(flops=2 * 10**11, bytes=10**10, num_operators=1000)


@pytest.mark.parametrize(
    ("work", "precision", "word"),
    [
        *((WORK, "fp32", Bound.compute), (WORK, "bf16_mixed", Bound.memory), (WORK, "fp64", None)),
        (dataclasses.replace(WORK, num_operators=3 * 10**4), "fp32", Bound.launch),
        (dataclasses.replace(WORK, num_operators=10**6), "fp32", Bound.compute),  # more than the whole step
        (dataclasses.replace(WORK, flops=None), "fp32", None),
    ],
)
def test_the_bound_is_the_resource_with_the_longest_least_time(work, precision, word):
    assert bound(work, 0.5, CEILINGS, precision) == word
    assert bound(work, 0.5, None, precision) is None


@pytest.mark.parametrize(
    ("waits_s", "word"),
    [
        ({}, Bound.compute),
        *(({"data_s": 0.002}, Bound.compute), ({"data_s": 0.006}, Bound.data)),
        *(({"copy_in_s": 0.002}, Bound.compute), ({"copy_in_s": 0.002, "copy_out_s": 0.004}, Bound.copy)),
    ],
)
def test_data_or_copying_bounds_a_step_that_waits_for_them_for_more_than_half_of_it(waits_s, word):
    waits = {name: [seconds] * 64 for name, seconds in waits_s.items()}
    for options, expected in (({}, word), ({"compile": True}, None if word == Bound.compute else word)):
        environment = {"ceilings": dataclasses.asdict(CEILINGS)}
        work = Work(flops=2 * 10**9, bytes=10**6, num_operators=10)
        cell = make_cell(options=Options(**options))
        row = summarise(make_record(cell, environment=environment, measurement=make_measurement(work=work, **waits)))
        assert row["bound"] == expected
        assert row["mfu"] == pytest.approx(0.2)
