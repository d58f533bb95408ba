"""The search for the highest rate, of simulated servers of known capacity, with the real verdict on each probe."""

import math
from collections import Counter

import numpy as np
import pytest

from accelbench.schema.vocab import Verdict
from accelbench.search.rates import MIN_S, NUM_REQUESTS, TOLERANCE, Candidate, Probed, RateRace
from stats.test_regenerative import verdict

SERVICE_S, ALLOWED, OVERHEAD_S = 0.01, 0.01, 1.0
EVENLY, EXPONENTIAL = "M/D/1", "M/M/1"
# (queue, limit of p99 in s) -> the highest rate within it. M/M/1: mu - ln(100) / limit; M/D/1: Erlang's formula.
CAPACITIES = {(EVENLY, 0.05): 56.08, (EXPONENTIAL, 0.2): 100 - math.log(100) / 0.2}


def seconds(rate, level):
    return max(MIN_S, NUM_REQUESTS / rate) * 2**level


class Servers:
    """Simulated servers, one for each setting, whose clock counts the probes' seconds."""

    def __init__(self, *services, limit_s=0.05, budget_s=math.inf, seed=0):
        self.services, self.limit_s, self.clock_s = services, limit_s, 0.0
        self.draw, self.seen = np.random.default_rng(seed), []
        candidates = [Candidate(1 / mean_s, ALLOWED) for _, mean_s in services]
        self.race = RateRace(candidates, self.measure, self.cost_s, lambda: budget_s - self.clock_s)

    def cost_s(self, i, rate, level, repeat):
        return seconds(rate, level) + OVERHEAD_S

    def measure(self, i, rate, level, repeat):
        self.seen.append((i, rate, level, repeat))
        self.clock_s += self.cost_s(i, rate, level, repeat)
        kind, mean_s = self.services[i]
        if rate * mean_s > 1.02:  # outstanding requests soon grow surely, which ends a probe
            self.clock_s += 10.0 - seconds(rate, level)
            return Probed(verdict=Verdict.fails, rate=rate, level=level)
        lasts_s = seconds(rate, level)
        num = round(rate * lasts_s)
        due_s = np.sort(self.draw.uniform(0, lasts_s, num))
        takes_s = np.full(num, mean_s) if kind == EVENLY else self.draw.exponential(mean_s, num)
        slack_s = np.concatenate([[0.0], np.cumsum(takes_s[:-1] - np.diff(due_s))])  # Lindley's recursion
        done_s = due_s + slack_s - np.minimum.accumulate(slack_s) + takes_s
        due, done = ((1e9 * each).astype(np.int64) for each in (due_s, done_s))
        said, misses = verdict(due, done, round(1e9 * self.limit_s), 99.0)
        bounds = {"share": misses.share, "low": misses.low, "high": misses.high}
        return Probed(verdict=said, rate=rate, level=level, **bounds)

    def run(self):
        self.is_done = self.race.run()
        return self

    @property
    def bounds(self):
        return self.race.candidates[0].bounds


@pytest.mark.parametrize(
    ("kind", "limit_s", "num"),
    [
        (EVENLY, 0.05, 3),
        pytest.param(EVENLY, 0.05, 20, marks=pytest.mark.slow),
        pytest.param(EXPONENTIAL, 0.2, 20, marks=pytest.mark.slow),
    ],
)
def test_the_capacity_of_a_queue_is_within_the_bounds(kind, limit_s, num):
    budgets_s = [50_000.0] * num if num > 3 else [180.0, 600.0, 1800.0]
    servers = [
        Servers((kind, SERVICE_S), limit_s=limit_s, budget_s=budget_s, seed=i).run()
        for i, budget_s in enumerate(budgets_s)
    ]
    found = [each.bounds for each in servers]
    missed = [(low, high) for low, high in found if not low <= CAPACITIES[kind, limit_s] <= high]
    assert len(missed) <= num // 20
    assert all(each.clock_s <= budget_s for each, budget_s in zip(servers, budgets_s, strict=True))
    if num > 3:
        assert np.median([high / low for low, high in found]) <= 1.1
        assert np.mean([len(each.race.candidates[0].passed) > 1 for each in servers]) >= 0.8
    assert max(Counter(servers[-1].seen).values()) == 1  # each probe has arrivals of its own


def told(*words):
    """A server that says these verdicts in turn, each of them once more while the last one holds."""
    said = list(words)

    def measure(i, rate, level, repeat):
        word = said.pop(0) if len(said) > 1 else said[0]
        word = word(i, rate) if callable(word) else word
        return None if word is None else Probed(verdict=word, rate=rate, level=level)

    return measure


P, F, U = Verdict.passes, Verdict.fails, Verdict.unknown


def race_of(measure, *offline, budget_s=300.0, cost_s=10.0):
    left_s = [budget_s]

    def counted(*ask):
        left_s[0] -= cost_s
        return measure(*ask)

    race = RateRace([Candidate(rate, ALLOWED) for rate in offline], counted, lambda *_: cost_s, lambda: left_s[0])
    race.is_done = race.run()
    assert left_s[0] >= 0
    return race


def up_to(*capacities):
    return lambda i, rate: P if rate <= capacities[i] else F


def test_sure_verdicts_end_the_search_within_the_tolerance_and_are_confirmed():
    race = race_of(told(up_to(70.0)), 100.0)
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
    assert len(race.candidates[0].probed) == 3
    assert len(race.candidates[0].passed) == 2
    assert not race.is_done
    short = race_of(told(P), 100.0, budget_s=9.0)
    assert short.candidates[0].probed == []
    assert short.needed_s == 10.0


def test_the_time_that_is_kept_is_that_of_a_process_that_has_not_run():
    measured, priced = set(), []

    def measure(*ask):
        measured.update((*ask[:3], ask[3] + more) for more in (0, 1))
        return Probed(verdict=up_to(70.0)(*ask[:2]), rate=ask[1], level=ask[2], num_processes=2)

    def cost_s(*ask):
        priced.append(ask in measured)
        return 10.0

    RateRace([Candidate(100.0, ALLOWED)], measure, cost_s, lambda: 100.0).run()
    assert len(priced) == 10
    assert not any(priced)


def test_a_failed_confirmation_steps_down():
    measured = []

    def measure(i, rate, level, repeat):
        measured.append((rate, repeat))
        return Probed(verdict=F if repeat and rate > 65 else up_to(70.0)(i, rate), rate=rate, level=level)

    race = race_of(measure, 100.0)
    refuted = [rate for rate, repeat in measured if repeat and rate > 65]
    assert refuted
    low, high = race.candidates[0].bounds
    assert high == min(refuted)
    assert low < 65
    assert len(race.candidates[0].passed) == 2


def test_a_challenger_is_probed_at_the_leaders_pass_and_may_win():
    race = race_of(told(up_to(40.0, 70.0, 30.0, 0.0)), 100.0, 80.0, 60.0, 20.0, budget_s=1000.0)
    assert race.leader == 1
    low, high = race.candidates[1].bounds
    assert low <= 70.0 < high <= TOLERANCE * low
    assert [each.verdict for each in race.candidates[2].probed] == ([F] if race.candidates[2].offline > low else [])
    assert race.candidates[3].probed == []


def test_a_challenger_that_can_not_be_told_drops_out():
    race = race_of(told(lambda i, rate: U if i else up_to(40.0)(i, rate)), 100.0, 80.0)
    assert race.leader == 0
    assert [each.verdict for each in race.candidates[1].probed] == [U]


def test_a_setting_whose_process_fails_keeps_what_it_has():
    race = race_of(told(P, None, P), 100.0)
    assert race.candidates[0].bounds == (50.0, None)
    assert len(race.candidates[0].probed) == 1
