"""The search for the highest rate, of simulated servers of known capacity, with the real verdict on each probe."""

import math
from collections import Counter

import numpy as np
import pytest

from accelbench.schema.vocab import Verdict
from accelbench.search.rates import TOLERANCE, Candidate, Probed, RateRace
from stats.test_regenerative import verdict

OVERHEAD_S, OFFLINE_S = 4.0, 12.0
EVENLY, EXPONENTIAL = "M/D/1", "M/M/1"
# (queue, mean service time in s) -> the highest rate with p99 within 50 ms. M/M/1: mu - ln(100) / limit; M/D/1:
# Erlang's formula.
CAPACITIES = {(EVENLY, 0.01): 56.08, (EXPONENTIAL, 0.004): 250 - math.log(100) / 0.05}


P, F, U = Verdict.passes, Verdict.fails, Verdict.unknown


class Servers:
    """Simulated servers, one for each setting, whose clock counts the probes' seconds."""

    def __init__(self, *services, limit_s=0.05, budget_s=math.inf, seed=0):
        self.services, self.limit_s, self.clock_s = services, limit_s, 0.0
        self.draw, self.seen = np.random.default_rng(seed), []
        candidates = [Candidate(1 / mean_s) for _, mean_s in services]
        self.race = RateRace(candidates, self.measure, self.cost_s, lambda: budget_s - self.clock_s)

    def cost_s(self, i, rate, lasts_s, repeat):
        return lasts_s + OVERHEAD_S

    def measure(self, i, rate, lasts_s, repeat):
        self.seen.append((i, rate, lasts_s, repeat))
        kind, mean_s = self.services[i]
        if rate * mean_s > 1.02:  # outstanding requests soon grow surely, which ends a probe
            self.clock_s += 10.0
            return Probed(verdict=F, rate=rate, seconds=lasts_s, load=math.inf)
        self.clock_s += self.cost_s(i, rate, lasts_s, repeat)
        num = round(rate * lasts_s)
        due_s = np.sort(self.draw.uniform(0, lasts_s, num))
        takes_s = np.full(num, mean_s) if kind == EVENLY else self.draw.exponential(mean_s, num)
        slack_s = np.concatenate([[0.0], np.cumsum(takes_s[:-1] - np.diff(due_s))])  # Lindley's recursion
        done_s = due_s + slack_s - np.minimum.accumulate(slack_s) + takes_s
        due, done = ((1e9 * each).astype(np.int64) for each in (due_s, done_s))
        said, _ = verdict(due, done, round(1e9 * self.limit_s), 99.0)
        load = float(np.quantile(done_s - due_s, 0.99)) / self.limit_s
        return Probed(verdict=said, rate=rate, seconds=lasts_s, load=load)

    def run(self):
        self.is_done = self.race.run()
        return self

    @property
    def bounds(self):
        return self.race.candidates[0].bounds


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "mean_s", "num", "budget_s", "width"),
    [
        (EVENLY, 0.01, 12, 180.0, 3.5),
        *[pytest.param(EVENLY, 0.01, 60, each, width, marks=SLOW) for each, width in ((180.0, 3.0), (300.0, 2.3))],
        *[pytest.param(EXPONENTIAL, 0.004, 60, s, width, marks=SLOW) for s, width in ((180.0, 2.0), (300.0, 1.7))],
        *[pytest.param(*queue, 8, 50_000.0, 1.1, marks=SLOW) for queue in ((EVENLY, 0.01), (EXPONENTIAL, 0.004))],
    ],
)
def test_the_capacity_of_a_queue_is_within_the_bounds_and_is_surely_found(kind, mean_s, num, budget_s, width):
    servers = [Servers((kind, mean_s), budget_s=budget_s - OFFLINE_S, seed=i).run() for i in range(num)]
    found = [each.bounds for each in servers]
    wrong = [each for each in found if not (each[0] or 0) <= CAPACITIES[kind, mean_s] <= (each[1] or math.inf)]
    assert len(wrong) <= num // 20
    assert all(each.clock_s <= budget_s for each in servers)
    assert np.mean([len(each.race.candidates[0].passed) > 1 for each in servers]) >= 0.9
    assert np.median([high / low if low and high else math.inf for low, high in found]) <= width
    assert max(Counter(servers[-1].seen).values()) == 1  # each probe has arrivals of its own


LOADS = {P: 0.9, F: 1.1, U: 0.99}  # the percentile over the limit


def told(word):
    """A server that says this verdict, or what this function says."""

    def measure(i, rate, lasts_s, repeat):
        said, load = word(i, rate) if callable(word) else (word, LOADS.get(word))
        return None if said is None else Probed(verdict=said, rate=rate, seconds=lasts_s, load=load)

    return measure


def up_to(*capacities):
    return lambda i, rate: (P if rate <= capacities[i] else F, rate / max(capacities[i], 1.0))


def race_of(measure, *offline, budget_s=300.0, cost_s=10.0):
    left_s = [budget_s]

    def counted(*ask):
        left_s[0] -= cost_s
        return measure(*ask)

    race = RateRace([Candidate(rate) for rate in offline], counted, lambda *_: cost_s, lambda: left_s[0])
    race.is_done = race.run()
    assert left_s[0] >= 0
    return race


def test_sure_verdicts_end_the_search_within_the_tolerance_and_are_confirmed():
    race = race_of(told(up_to(70.0)), 100.0, budget_s=100_000.0)
    low, high = race.candidates[0].bounds
    assert low <= 70.0 < high <= TOLERANCE * low
    assert race.is_done
    assert race.candidates[0].probed[0].rate == 50.0


@pytest.mark.parametrize("word", [F, U, None])
def test_without_a_pass_nothing_leads_and_the_search_ends(word):
    race = race_of(told(word), 100.0, 90.0, budget_s=10_000.0)
    assert race.leader is None
    assert not race.is_done
    assert race.candidates[0].bounds == (
        None,
        min(each.rate for each in race.candidates[0].probed) if word is F else None,
    )


def test_the_budget_keeps_the_time_to_confirm():
    race = race_of(told(up_to(70.0)), 100.0, budget_s=49.0)
    assert len(race.candidates[0].probed) == 4
    assert len(race.candidates[0].passed) > 1
    assert not race.is_done
    short = race_of(told(P), 100.0, budget_s=9.0)
    assert short.candidates[0].probed == []


def test_a_failed_confirmation_steps_down():
    measured = []

    def measure(i, rate, lasts_s, repeat):
        measured.append((rate, repeat))
        verdict, load = up_to(70.0)(i, rate)
        return Probed(verdict=F if repeat and rate > 45 else verdict, rate=rate, seconds=lasts_s, load=load)

    race = race_of(measure, 100.0, budget_s=80.0)
    refuted = [rate for rate, repeat in measured if repeat and rate > 45]
    assert refuted
    low, high = race.candidates[0].bounds
    assert high == min(refuted)
    assert low <= 45
    assert len(race.candidates[0].passed) > 1


def test_a_challenger_is_probed_at_the_leaders_pass_and_may_win():
    race = race_of(told(up_to(40.0, 70.0, 30.0, 0.0)), 100.0, 80.0, 60.0, 20.0, budget_s=100_000.0)
    assert race.leader == 1
    low, high = race.candidates[1].bounds
    assert low <= 70.0 < high <= TOLERANCE * low
    assert [each.verdict for each in race.candidates[2].probed] == [F]
    assert race.candidates[3].probed == []
