"""Claims of a cell's process beside what its host saw."""

import pytest

from accelbench.judging.asked import judge
from accelbench.judging.witnessed import checks, warnings
from accelbench.schema.conditions import Witnessed
from accelbench.schema.measurement import Block, Epoch, Evaluation
from accelbench.schema.vocab import Device, Promise
from accelbench.schema.workload import ModelSpec
from fakes import make_cell, make_measurement

CLAIMED_S = 8 * 0.1 + 64 * 0.01  # of `make_measurement`


def seen(timed_s=CLAIMED_S, **changes):
    return Witnessed(
        **{"num_sections": 1, "timed_s": timed_s, "late_s": 0.0, "num_cores": 2, "num_allowed_cores": 2, **changes}
    )


def reason(witnessed=None, cell=None, **changes):
    return judge(cell or make_cell(), make_measurement(**changes), witnessed or seen())


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.2])
def test_times_that_the_hosts_clock_confirms_are_valid(factor):
    assert reason(seen(factor * CLAIMED_S)) is None


@pytest.mark.parametrize("factor", [0.3, 0.7, 1.5, 4.0])
def test_times_that_it_does_not_confirm_are_not(factor):
    assert reason(seen(factor * CLAIMED_S)).startswith(
        f"its process claims {CLAIMED_S:.2f} s of measuring, and the host"
    )


def test_what_was_dropped_counts_and_a_host_that_was_stopped_knows_less():
    assert reason(seen(5.0)) is not None
    assert reason(seen(5.0), dropped_s=5.0 - CLAIMED_S) is None
    assert reason(seen(5.0, late_s=4.0)) is None


def test_epochs_and_their_evaluations_are_claims_too():
    epoch = Epoch(seconds=2.0, num_samples=100, evaluation=Evaluation(num_samples=10, seconds=1.0, loss=1.0))
    of_epochs = {"blocks": [], "latency_s": [], "epochs": [epoch] * 2}
    assert reason(seen(6.0), **of_epochs) is None
    assert reason(seen(4.0), **of_epochs) is not None


def test_a_process_that_says_nothing_is_not_believed():
    assert reason(seen(0.0, num_sections=0)) == (
        "its process did not say when it timed something, so that nothing confirms its times"
    )


def test_more_samples_than_were_asked_for_are_no_samples_unless_the_user_counts_them():
    more = {"blocks": [Block(num_steps=10, num_samples=321, seconds=0.1)] * 8}
    assert reason(**more) == "its process claims more than 32 samples a step"
    counted = make_cell(model=ModelSpec(name="own", samples="own.count"))
    assert reason(cell=counted, **more) is None
    short = {"blocks": [Block(num_steps=10, num_samples=300, seconds=0.1)] * 8}
    assert reason(**short) is None  # the last batch of an epoch


@pytest.mark.parametrize(("threads", "cores", "bound"), [(2, 2, False), (2, 1, True), (1, 1, False), (None, 1, False)])
def test_fewer_cores_than_threads_are_a_defect_if_the_machine_has_more(threads, cores, bound):
    assert (reason(seen(num_cores=cores), threads=threads) is not None) == bound
    assert reason(seen(num_cores=1, num_allowed_cores=1), threads=threads) is None  # as taskset has it


def test_cores_that_are_bound_on_purpose_accuse_nobody():
    few = seen(num_cores=1, is_bound_outside=True)
    assert reason(few, threads=2) is None
    (warning,) = warnings(make_cell(), make_measurement(threads=2), few)
    assert warning.startswith("OpenMP's variables bound the process to 1 of 2 cores")
    on_gpu = make_cell(device=Device.gpu)
    assert reason(seen(num_cores=1), on_gpu, threads=2, device="gpu") is None
    assert list(warnings(on_gpu, make_measurement(threads=2), few)) == []


def test_what_the_host_observed_is_said_and_what_it_did_not_is_not_fine():
    def shares(cell, witnessed):
        return {each.promise: each.share for each in checks(cell, make_measurement(), witnessed)}

    assert shares(make_cell(), seen(2 * CLAIMED_S)) == {Promise.times: pytest.approx(0.5), Promise.counts: 1.0}
    counted = make_cell(model=ModelSpec(name="own", samples="own.count"))
    assert shares(counted, None) == {Promise.times: None, Promise.counts: None}
