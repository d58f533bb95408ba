import dataclasses

import pytest

from accelbench.judging.roofline import WINOGRAD, bound, least_times, share, verdict
from accelbench.schema.measurement import Work
from accelbench.schema.vocab import Bound, CeilingVerdict
from schema.test_ceilings import CEILINGS

# 0.2 s of arithmetic in fp32, 0.1 s of memory traffic, 0.01 s of launches.
WORK = Work(flops=2 * 10**11, bytes=10**10, num_operators=1000)


def test_the_share_is_the_rate_over_the_ceiling():
    assert share(WORK.flops, 0.4, 1e12) == pytest.approx(0.5)
    assert share(None, 0.4, 1e12) is None
    assert share(WORK.flops, 0.4, None) is None


def test_each_resource_has_its_least_time():
    assert least_times(WORK, CEILINGS, "fp32") == pytest.approx(
        {Bound.compute: 0.2, Bound.memory: 0.1, Bound.launch: 0.01}
    )
    assert set(least_times(Work(bytes=1), CEILINGS, "fp32")) == {Bound.memory}


@pytest.mark.parametrize(
    ("work", "data_s", "precision", "word"),
    [
        (WORK, 0.0, "fp32", Bound.compute),
        (WORK, None, "fp32", Bound.compute),
        (WORK, 0.0, "bf16_mixed", Bound.memory),
        (WORK, 0.3, "fp32", Bound.data),
        (WORK, 0.1, "fp32", Bound.compute),
        (None, 0.3, "fp32", Bound.data),
        (dataclasses.replace(WORK, num_operators=3 * 10**4), 0.0, "fp32", Bound.launch),
        (dataclasses.replace(WORK, num_operators=10**6), 0.0, "fp32", Bound.compute),  # more than the whole step
        (dataclasses.replace(WORK, flops=None), 0.0, "fp32", None),
        (WORK, 0.0, "fp64", None),
        (None, 0.0, "fp32", None),
    ],
)
def test_the_bound_is_what_is_waited_for_longest(work, data_s, precision, word):
    assert bound(work, 0.5, CEILINGS, precision, data_s=data_s) == word


def test_copies_that_take_most_of_a_step_bound_it():
    assert bound(WORK, 0.5, CEILINGS, "fp32", copy_s=0.3) == Bound.copy
    assert bound(WORK, 0.5, CEILINGS, "fp32", copy_s=0.1) == Bound.compute


def test_what_is_compiled_together_has_no_bound_but_what_was_measured():
    assert bound(WORK, 0.5, CEILINGS, "fp32", fused=True) is None
    assert bound(WORK, 0.5, CEILINGS, "fp32", fused=True, data_s=0.4) == Bound.data


def test_without_ceilings_there_is_no_bound():
    assert bound(WORK, 0.5, None, "fp32") is None


@pytest.mark.parametrize(
    ("rate", "word"),
    [
        (0.5e12, CeilingVerdict.below),
        (1e12, CeilingVerdict.below),
        (1.01e12, CeilingVerdict.above),
        (WINOGRAD * 1e12, CeilingVerdict.above),
        (2.26e12, CeilingVerdict.beyond),
    ],
)
def test_a_rate_above_the_ceiling_needs_another_probe_and_beyond_winograds_gain_is_wrong(rate, word):
    assert verdict(rate, 1e12) == word
