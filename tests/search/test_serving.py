"""Searches for the most requests per second: of simulated queues, and of an engine that serves as its cells say."""

import io
import math
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from accelbench.answers.serving import capacities
from accelbench.errors import UserError
from accelbench.report import read
from accelbench.schema import plan_file
from accelbench.schema.cell import Protocol, Server, Verdict
from accelbench.search.base import BaseSearch
from accelbench.search.serving import Candidate, search
from accelbench.serving.server import num_requests
from accelbench.stats.request_latencies import Probe, Run, num_requests_for, rate_interval, verdict
from fakes import make_cell, make_options
from search.test_search import FOLDER, written
from stats.test_request_latencies import BATCH, batches, one_worker

OPTIONS = make_options(out="runs/mine")


def settings(*sizes, fault="serve", **changes):
    return [make_cell(fault, protocol=Protocol.server, batch_size=size, **changes) for size in sizes]


@pytest.fixture
def searched(shared, project, monkeypatch):
    """Searches, with an exit status; returns what was printed. Each record takes ten seconds of the budget."""
    monkeypatch.setattr(BaseSearch, "now", staticmethod(lambda: 10.0 * len(written())))

    def searched(cells, budget_s=10_000.0, status=0):
        console = Console(file=io.StringIO(), width=300)
        found = search(cells, OPTIONS, budget_s, console, shared)
        assert found == status, console.file.getvalue()
        return console.file.getvalue()

    return searched


def test_a_search_ends_with_a_sentence_and_records_that_say_the_same(searched):
    with pytest.raises(UserError, match="--serve: the cells differ in what they serve, or in its limit"):
        searched([*settings(1, 8), *settings(8, fault="serve late")])
    text = searched(settings(1, 8))
    (sweep,) = read.read_all(FOLDER)
    (best,) = capacities(sweep.cells)  # the other one's offline throughput is below what this one serves
    assert best.low < 560 < best.high <= 1.05 * best.low
    assert best.sentence in text
    assert re.search(r"batches of at most 8: \d+ to \d+ requests/s with p99 at most 50 ms \(sure\)", text)
    assert "To go on" not in text
    assert "mlp-cpu-fp32-b8-infer-server-400rps-" in text
    assert "400 requests/s, p99 30.0 ms, sure pass: p99 at most 50 ms" in text
    assert re.search(r"Not probed \(in brackets: requests/s if all arrive at once\): .*\(100\)", text)
    assert len({probe.process.measurement.serving.seed for probe in best.probes}) == len(best.probes)
    assert len(sweep.planned) == len(written()) == len(best.probes) + 2  # offline for each
    before = written()
    searched(settings(1, 8))
    assert written() == before


UNSURE = "No rate is surely within the limit. The lines above have the reasons.\n"


def test_a_probe_whose_requests_came_late_is_tried_again_with_another_seed(searched):
    text = searched(settings(8, fault="serve late"), budget_s=400.0)
    assert " requests/s with p99 at most 50 ms (" in text
    text = searched(settings(8, fault="serve later"), budget_s=100.0, status=1)
    assert text.endswith(UNSURE)
    assert "requests were issued .72" in text


def test_the_budget_ends_it_and_the_same_command_goes_on(searched):
    go_on = "To go on: run the same command with out=runs/mine; it has a new budget"
    assert go_on in searched(settings(8), budget_s=45.0)
    first = written()
    assert go_on in searched(settings(8), budget_s=4.0)
    assert first == written()
    assert "To go on" not in searched(settings(8))
    assert first.items() <= written().items()
    too_short = searched(settings(4), budget_s=12.0, status=1)  # for a probe
    assert too_short.endswith("No rate is surely within the limit. A longer --budget may find one.\n")
    # Workers that slow each other down, to 100/s in all, do not show how long a lone request takes.
    text = searched(settings(1, server=Server(latency_ms=15.0, workers=4)), budget_s=200.0)
    assert "no rate keeps the limit" not in text


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("serve", "no rate keeps the limit of 5 ms: a request takes at least 10.0 ms"),
        ("raise", "failed: ValueError: a bad layer with a second line"),
    ],
)
def test_what_can_not_be_served_is_said_at_once(fault, reason, searched):
    text = searched(settings(1, fault=fault, server=Server(latency_ms=5.0)), status=1)
    assert reason in text
    assert text.endswith(UNSURE)
    assert len(written()) == len(list(plan_file.read_planned(FOLDER))) == 1


OVERHEAD_S, OFFLINE_S = 4.0, 12.0  # of a process, and of what comes before
ITEM = SimpleNamespace(cell=SimpleNamespace(server=Server()))


def mixed(rng, shape):
    return np.where(rng.random(shape) < 0.05, 0.05, 0.005)


def in_batches(rng, runs, num, rate):
    """A batch takes 20 ms, and has all that wait, at most eight."""
    return [0.02 * times for times in batches(rng, runs, num, rate * 0.02 / BATCH)]


# The queue, its limit, the most that it serves, and the highest rate with p99 within the limit: by Erlang's formula;
# mu - ln(100) / limit; of two million simulated requests.
CONSTANT = (partial(one_worker, service=lambda rng, shape: np.full(shape, 0.01)), 0.05, 100.0, 56.08)
EXPONENTIAL = (partial(one_worker, service=lambda rng, shape: rng.exponential(0.004, shape)), 0.05, 250.0)
EXPONENTIAL += (250 - math.log(100) / 0.05,)
OTHERS = [(CONSTANT[0], 0.12, 100.0, 81.03), (partial(one_worker, service=mixed), 0.12, 138.0, 80.66)]
OTHERS += [(in_batches, 0.06, 400.0, 328.7)]


def probed(serve, limit_s, rate, lasts_s, draw):
    num = max(1, round(rate * lasts_s))
    run = Run(*((1e9 * times_s[0]).astype(np.int64) for times_s in serve(draw, 1, num, rate)))
    misses = run.misses(1e9 * limit_s)
    load = (run.bounds(99)[0] or math.inf) / 1e9 / limit_s
    return Probe(rate=rate, load=load, num=num, effect=misses.effect, verdict=verdict(misses, 99))


def simulated(serve, limit_s, offline, budget_s, seed):
    draw, left_s = np.random.default_rng(seed), budget_s - OFFLINE_S
    candidate = Candidate(ITEM, offline, num_requests_for(99))
    while not candidate.is_close and (ask := candidate.next(left_s - OVERHEAD_S)) is not None:
        rate, lasts_s = ask
        if rate > 1.02 * offline:  # a probe ends early once a request has waited for two seconds
            probe = Probe(rate=rate, load=math.inf, num=1000, effect=1.0, verdict=Verdict.fails)
            lasts_s = min(lasts_s, 2 / (1 - offline / rate))
        else:
            probe = probed(serve, limit_s, rate, lasts_s, draw)
        candidate.probes.append(probe)
        left_s -= lasts_s + OVERHEAD_S
    low, high = rate_interval(candidate.probes, 99)[:2]
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
    *of_queue, true = queue
    lows, highs, took_s = zip(*(simulated(*of_queue, budget_s, seed) for seed in range(num)), strict=True)
    assert sum(low <= true <= high for low, high in zip(lows, highs, strict=True)) >= 0.95 * num
    assert np.median(np.divide(highs, np.maximum(lows, 0.1))) <= width
    assert max(took_s) <= budget_s


def test_between_probes_far_from_each_other_the_next_rate_halves_the_way_or_repeats_a_short_probe():
    """Of a fast network whose queue grew without bound, on a machine whose slow requests come in long clusters."""
    passed = Probe(rate=4330, num=83_000, effect=150.0, load=0.148, verdict=Verdict.passes)
    grew = Probe(rate=8950, num=50_000, effect=1.0, load=math.inf, verdict=Verdict.fails)
    candidate = Candidate(ITEM, offline=8660.0, num=651, probes=[passed, grew])
    assert candidate.rate == pytest.approx((4330 * 8950) ** 0.5)
    # No request of the short probe missed the limit, but that may be luck.
    candidate.probes[0] = replace(passed, num=41_568, verdict=Verdict.unknown)
    rate, seconds = candidate.next(80.0)
    assert (rate, seconds) == (4330, pytest.approx(2 * 9.6))
    candidate.probes.append(passed)
    assert candidate.next(60.0)[0] > 4330
    # A probe of a fast network has as many requests as a run may have.
    rate, seconds = Candidate(ITEM, offline=123_456.0, num=651).next(600.0)
    assert 1.9e6 < num_requests(Server(rate=rate, duration_s=seconds)) <= 2e6
