"""Whole searches for the highest rate, of simulated queues with one limit, by the real rules on a simulated clock."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from accelbench.schema.cell import Server
from accelbench.schema.vocab import Verdict
from accelbench.search.rates import Candidate
from accelbench.serving.batcher import num_requests
from accelbench.stats.request_latencies import Probe, Run, num_requests_for, rate_bounds, verdict

OVERHEAD_S, OFFLINE_S = 4.0, 12.0  # of a process, and of what comes before
BATCH = 8
ITEM = SimpleNamespace(cell=SimpleNamespace(server=Server()))


def one_worker(due_s, takes_s):
    """When each request is done (Lindley's recursion, solved by sums)."""
    slack_s = np.concatenate([[0.0], np.cumsum(takes_s[:-1] - np.diff(due_s))])
    return due_s + slack_s - np.minimum.accumulate(slack_s) + takes_s


def constant(due_s, draw):
    return one_worker(due_s, np.full(len(due_s), 0.01))


def exponential(due_s, draw):
    return one_worker(due_s, draw.exponential(0.004, len(due_s)))


def mixed(due_s, draw):
    """Every twentieth request takes ten times as long."""
    return one_worker(due_s, np.where(draw.random(len(due_s)) < 0.05, 0.05, 0.005))


def batches(due_s, draw):
    """A batch takes 20 ms, and has all that wait, at most eight."""
    due, done, free, first = due_s.tolist(), np.empty(len(due_s)), 0.0, 0
    while first < len(due):
        start, last = max(free, due[first]), first + 1
        while last < min(first + BATCH, len(due)) and due[last] <= start:
            last += 1
        free = start + 0.02
        done[first:last], first = free, last
    return done


# The queue, its limit, the most that it serves, and the highest rate with p99 within the limit: by Erlang's formula;
# mu - ln(100) / limit; of two million simulated requests.
CONSTANT = (constant, 0.05, 100.0, 56.08)
EXPONENTIAL = (exponential, 0.05, 250.0, 250 - math.log(100) / 0.05)
OTHERS = [(constant, 0.12, 100.0, 81.03), (mixed, 0.12, 138.0, 80.66), (batches, 0.06, 400.0, 328.7)]


def probed(serve, limit_s, rate, lasts_s, draw):
    num = max(1, round(rate * lasts_s))
    due_s = np.sort(draw.uniform(0, lasts_s, num))
    run = Run(*((1e9 * times_s).astype(np.int64) for times_s in (due_s, serve(due_s, draw))))
    misses = run.misses(1e9 * limit_s)
    load = (run.bounds(99)[0] or math.inf) / 1e9 / limit_s
    fields = {"num": num, "num_missed": misses.num_missed, "effect": misses.effect, "verdict": verdict(misses, 99)}
    return Probe(rate=rate, load=load, **fields)


def searched(serve, limit_s, offline, budget_s, seed):
    """The bounds that a search finds within its budget, and the seconds that it took."""
    draw, left_s = np.random.default_rng(seed), budget_s - OFFLINE_S
    candidate = Candidate(ITEM, offline, num_requests_for(99))
    while not candidate.is_close and (ask := candidate.next(left_s - OVERHEAD_S)) is not None:
        rate, lasts_s = ask
        if rate > 1.02 * offline:  # a probe ends early once a request has waited for two seconds
            numbers = {"num": 1000, "num_missed": 500, "effect": 1.0, "verdict": Verdict.fails}
            candidate.probes.append(Probe(rate=rate, load=math.inf, **numbers))
            left_s -= min(lasts_s, 2 / (1 - offline / rate)) + OVERHEAD_S
        else:
            candidate.probes.append(probed(serve, limit_s, rate, lasts_s, draw))
            left_s -= lasts_s + OVERHEAD_S
        candidate.longest_s = max(candidate.longest_s, lasts_s)
    low, high = rate_bounds(candidate.probes, 99)[:2]
    return low or 0.0, high or math.inf, budget_s - left_s


@pytest.mark.parametrize(
    ("queue", "num", "budget_s", "width"),
    [
        (CONSTANT, 20, 180.0, 1.4),
        (EXPONENTIAL, 20, 180.0, 1.3),
        *[pytest.param(queue, 100, 180.0, 1.6, marks=pytest.mark.slow) for queue in (CONSTANT, EXPONENTIAL, *OTHERS)],
        *[pytest.param(queue, 20, 3000.0, 1.15, marks=pytest.mark.slow) for queue in (CONSTANT, EXPONENTIAL)],
    ],
)
def test_nineteen_of_twenty_searches_have_the_highest_rate_within_narrow_bounds(queue, num, budget_s, width):
    *simulated, true = queue
    lows, highs, took_s = zip(*(searched(*simulated, budget_s, seed) for seed in range(num)), strict=True)
    assert sum(low <= true <= high for low, high in zip(lows, highs, strict=True)) >= 0.95 * num
    assert np.median(np.divide(highs, np.maximum(lows, 0.1))) <= width
    assert max(took_s) <= budget_s


def test_a_rate_at_which_the_queue_grew_is_not_tried_again():
    """Of a fast network whose queue grows without bound between two probes far from each other."""
    passed = Probe(rate=4320, num=40_000, num_missed=0, effect=1.0, load=0.107, verdict=Verdict.passes)
    grew = Probe(rate=8950, num=50_000, num_missed=40_000, effect=1.0, load=math.inf, verdict=Verdict.fails)
    candidate = Candidate(ITEM, offline=8650.0, num=651, probes=[passed, grew])
    assert 4320 < candidate.rate < 0.98 * 8950


def test_a_rate_that_kept_the_limit_in_too_short_a_probe_is_probed_again_and_longer():
    """Of a machine on which slow requests come in long clusters: no request missed the limit, but that may be luck."""
    short = Probe(rate=4330, num=41_568, num_missed=0, effect=150.0, load=0.148, verdict=Verdict.unknown)
    grew = Probe(rate=8020, num=50_000, num_missed=40_000, effect=1.0, load=math.inf, verdict=Verdict.fails)
    candidate = Candidate(ITEM, offline=8660.0, num=651, probes=[short, grew], longest_s=9.6)
    rate, seconds = candidate.next(80.0)
    assert rate == 4330
    assert seconds == pytest.approx(2 * 9.6)
    candidate.probes.append(
        Probe(rate=4330, num=83_000, num_missed=0, effect=150.0, load=0.148, verdict=Verdict.passes)
    )
    assert candidate.next(60.0)[0] > 4330


def test_a_probe_of_a_fast_network_has_as_many_requests_as_a_run_may_have():
    rate, seconds = Candidate(ITEM, offline=123_456.0, num=651).next(600.0)
    assert 1.9e6 < num_requests(Server(rate=rate, duration_s=seconds)) <= 2e6
