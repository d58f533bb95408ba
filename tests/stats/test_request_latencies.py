"""The verdict on a percentile in a queue: how often it is wrong, of simulated queues whose percentile is known."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy

from accelbench.schema.cell import Verdict
from accelbench.stats.request_latencies import Probe, Run, num_requests_for, rate_interval, verdict

# Times are in units of the mean service time. The 99th percentile with a constant service time: Franx, Operations
# Research Letters 29, 2001.
P99_OF_CONSTANT = {0.5: 4.3363, 0.8: 11.3559, 0.9: 22.8982}
LOADS = tuple(P99_OF_CONSTANT)
BATCH = 8


def arrivals(rng, runs, num, rate):
    """Poisson's, given their number: sorted uniforms, made without sorting."""
    gaps = rng.exponential(size=(runs, num + 1)).cumsum(axis=1)
    return gaps[:, :-1] / gaps[:, -1:] * (num / rate)


def one_worker(rng, runs, num, load, service):
    """Lindley's recursion, solved by sums: the last of a busy period is done after its first arrival and all work."""
    due = arrivals(rng, runs, num, load)
    work = service(rng, (runs, num))
    worked = work.cumsum(axis=1)
    return due, worked + np.maximum.accumulate(due - (worked - work), axis=1)


def exponential(rng, shape):
    return rng.exponential(size=shape)


def constant(rng, shape):
    return np.ones(shape)


def workers(rng, runs, num, load, service, many):
    """All of them together do one request in a unit of time."""
    due, done = arrivals(rng, runs, num, load), np.empty((runs, num))
    work, free, rows = many * service(rng, (num, runs)), np.zeros((many, runs)), np.arange(runs)
    for i in range(num):
        first = free.argmin(axis=0)
        free[first, rows] = done[:, i] = np.maximum(due[:, i], free[first, rows]) + work[i]
    return due, done


def batches(rng, runs, num, load):
    """A batch takes a unit of time, whatever its size; it is of all that wait, at most eight."""
    due, done = arrivals(rng, runs, num, load * BATCH), np.empty((runs, num + BATCH))
    padded = np.concatenate([due, np.full((runs, BATCH), np.inf)], axis=1)
    free, first, rows = np.zeros(runs), np.zeros(runs, int), np.arange(runs)[:, None]
    while (first < num).any():
        places = np.minimum(first[:, None] + np.arange(BATCH), num + BATCH - 1)
        waiting = padded[rows, places]
        start = np.where(first < num, np.maximum(free, waiting[:, 0]), free)
        taken = waiting <= start[:, None]
        done[rows, np.where(taken, places, num + BATCH - 1)] = start[:, None] + 1
        free, first = start + 1, first + taken.sum(axis=1)
    return due, done[:, :num]


# What is simulated, and its 99th percentile: by formula or, from "M/M/2" on, of 3e7 simulated requests.
QUEUES = {
    **{f"M/M/1 {at}": (partial(one_worker, load=at, service=exponential), math.log(100) / (1 - at)) for at in LOADS},
    **{f"M/D/1 {at}": (partial(one_worker, load=at, service=constant), P99_OF_CONSTANT[at]) for at in LOADS},
    "M/M/2 0.8": (partial(workers, load=0.8, service=exponential, many=2), 23.8747),
    "M/D/8 0.8": (partial(workers, load=0.8, service=constant, many=8), 17.354),
    "batches 0.5": (partial(batches, load=0.5), 1.9993),
    "batches 0.8": (partial(batches, load=0.8), 2.8005),
}


def judged(due, done, limit_ns, percentile):
    misses = Run(due, done).misses(limit_ns)
    return verdict(misses, percentile), misses


def ns(times):
    return np.asarray(np.asarray(times) * 1e9, np.int64)


def simulated(queue, num, runs, seed=0):
    rng, many = np.random.default_rng(seed), max(1, 1_000_000 // num)
    for first in range(0, runs, many):
        yield from zip(*map(ns, QUEUES[queue][0](rng, min(many, runs - first), num)), strict=True)


def at_most(share, runs):
    """The most of so many runs, each of which has this chance: more are seen once in a thousand times."""
    return scipy.stats.binom.isf(0.001, runs, share)


FAST = [("M/M/1 0.5", 2_000, 200), ("M/M/1 0.8", 10_000, 100), ("M/D/1 0.8", 10_000, 100), ("batches 0.8", 5_000, 100)]
NUMS = {"M/M/1": (2_000, 10_000, 50_000), "M/D/1": (2_000, 10_000, 50_000)}
WHOLE = [(queue, num, 1_000) for queue in QUEUES for num in NUMS.get(queue[:-4], (2_000, 10_000))]


@pytest.mark.parametrize(
    ("queue", "num", "runs"), FAST + [pytest.param(*queue, marks=[pytest.mark.slow]) for queue in WHOLE]
)
def test_at_its_limit_a_server_passes_and_fails_in_one_run_of_a_hundred(queue, num, runs):
    verdicts = {1: [], 1.5: [], 0.5: []}
    for run in simulated(queue, num, runs):
        for share, words in verdicts.items():
            words.append(judged(*run, share * QUEUES[queue][1] * 1e9, 99)[0])
    assert verdicts[0.5].count(Verdict.passes) == 0
    for share, word in ((1, Verdict.passes), (1, Verdict.fails), (1.5, Verdict.fails)):
        assert verdicts[share].count(word) <= at_most(0.01, runs)
    if num == 50_000 and queue.endswith("0.5"):  # in at least 80 % of all runs, of which these are some
        assert runs - verdicts[1.5].count(Verdict.passes) <= at_most(0.2, runs)


@pytest.mark.parametrize("num", [20, 100, 1_000])
@pytest.mark.parametrize("percentile", [50, 90])
def test_short_runs_pass_no_lower_percentile_by_their_clusters(percentile, num):
    """In a busy queue, requests are slow together for longer than a batch of such a run."""
    limit_ns = 1e9 * -math.log(1 - percentile / 100) / 0.2
    wrong = too_low = 0
    for due, done in simulated("M/M/1 0.8", num, 200):
        wrong += judged(due, done, limit_ns, percentile)[0] == Verdict.passes
        _, _, high = Run(due, done).bounds(percentile)
        too_low += high is not None and high < limit_ns
    assert max(wrong, too_low) <= at_most(0.06, 200)


@pytest.mark.parametrize(("queue", "num", "runs"), FAST)
def test_the_verdict_on_a_limit_follows_from_the_bounds_of_the_percentile(queue, num, runs):
    for i, (due, done) in enumerate(simulated(queue, num, runs // 4)):
        limit_ns = round((0.6 + 0.01 * i) * QUEUES[queue][1] * 1e9)
        word, _ = judged(due, done, limit_ns, 99)
        value, low, high = Run(due, done).bounds(99, limit_ns)
        assert (low or 0) <= value <= (high or math.inf)
        assert (word == Verdict.fails) == (low is not None and low > limit_ns)
        assert (word == Verdict.passes) == (high is not None and high <= limit_ns)


def test_slow_seconds_far_below_the_limit_are_no_reason_to_doubt():
    """A machine that is a little slower for a tenth of the run, and now and then for a moment: nothing nears 50 ms."""
    rng, num = np.random.default_rng(4), 70_000
    latencies = rng.exponential(0.0005, num)
    latencies[20_000:27_000] += 0.0015
    for first in rng.integers(0, num, 60):
        latencies[first : first + 20] += 0.005
    due = np.arange(num) * 250_000
    word, misses = judged(due, due + ns(latencies), 50e6, 99)
    assert (word, misses.num_missed) == (Verdict.passes, 0)


def test_with_too_few_requests_nothing_is_said():
    assert [num_requests_for(percentile) for percentile in (50, 90, 99, 99.9)] == [10, 63, 651, 6_537]
    due = np.arange(1_000) * 100
    assert judged(due, due + 10, 10, 99)[0] == Verdict.passes  # the limit itself is no miss
    assert judged(due[:650], due[:650] + 10, 10, 99)[0] == Verdict.unknown
    assert Run(due, due + 10).bounds(99) == (10, 10, 10)
    assert Run(due[:650], due[:650] + 10).bounds(99) == (None, None, None)


def test_an_error_misses_every_limit():
    due = np.arange(2_000) * 100
    done = due + 10
    done[::40] = -1
    word, misses = judged(due, done, 10**12, 99)
    assert (word, misses.num_missed) == (Verdict.fails, 50)
    assert misses.low < 0.025 < misses.high
    assert Run(due, done).bounds(99)[0] is None
    assert Run(due, done).bounds(90)[0] == 10


def probes(*loads, word=Verdict.unknown):
    """At 80, 100, 120, ... requests/s, with these percentiles over the limit."""
    return [Probe(rate=80.0 + 20 * i, num=10_000, effect=4.0, load=load, verdict=word) for i, load in enumerate(loads)]


def test_probes_on_both_sides_of_the_limit_tell_its_rate_together():
    low, high, num = rate_interval(probes(1 / 1.2, 1 / 0.8), 99)
    assert low < 90 < high < 1.3 * low
    assert math.sqrt(low * high) == pytest.approx(90, rel=0.03)
    assert num == 2
    one_rate = [replace(probe, rate=90.0) for probe in probes(1 / 1.2, 1 / 0.8)]
    unknown = [replace(probe, effect=math.inf) for probe in probes(1 / 1.2, 1 / 0.8)]
    for one_side in (probes(0.7, 0.8), probes(1.2, 1.3), probes(1.2, 0.8), probes(0.1, 10.0), one_rate, unknown, []):
        assert rate_interval(one_side, 99) == (None, None, 0)


P, F, U = Verdict.passes, Verdict.fails, Verdict.unknown


def test_probes_that_contradict_each_other_widen_the_interval():
    widths = []
    for more in (0.0, 0.1, 0.2):  # by which the percentile of one process is above the other's
        loads = 1 / (1 - more), 1 / (1 + more)
        middle = [Probe(rate=90.0, num=50_000, effect=4.0, load=load, verdict=U) for load in loads]
        low, high, _ = rate_interval([*probes(1 / 1.2, 1 / 0.8), *middle], 99)
        widths.append(high / low)
    assert widths[0] < 1.1
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize(
    ("verdicts", "bounds"),
    [
        ([(412, P), (412, P), (431, F)], (412, 431)),
        ([(300, P), (412, P), (412, F)], (300, 412)),
        ([(300, F), (412, P), (412, F)], (None, None)),
    ],
)
def test_far_from_the_limit_single_probes_give_the_bounds_and_limit_those_of_others(verdicts, bounds):
    def far(rate, word, load=0.1):
        return Probe(rate=rate, num=1000, effect=1.0, load=load, verdict=word)

    assert rate_interval([far(*each) for each in verdicts], 99)[:2] == bounds
    near = probes(1 / 1.2, 1 / 0.8)
    assert rate_interval([*near, far(89, P)], 99).low == 89
    assert rate_interval([*near, far(50, F, math.inf)], 99)[:2] == (None, 50)
