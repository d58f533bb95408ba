"""Summaries of requests with known times."""

import numpy as np
import pytest

from accelbench.schema.cell import Server
from accelbench.schema.vocab import Protocol, Verdict
from accelbench.serving.batcher import TIME_LIMIT, due_ns
from accelbench.serving.server import Served
from accelbench.serving.summary import summarised, write_times
from fakes import make_cell

MS = 1_000_000  # nanoseconds


def served(due, took_ns=10 * MS, late_ns=MS // 10, failed=(), **changes):
    """Requests that one worker computes one after another, each in `took_ns`."""
    dispatched, free = np.zeros_like(due), 0
    for place, at in enumerate(due):
        dispatched[place] = max(at + late_ns, free)
        free = dispatched[place] + took_ns
    done = dispatched + took_ns
    done[list(failed)] = -1
    made = {"due": due, "issued": due + late_ns, "dispatched": dispatched, "done": done, "batches": {1: len(due)}}
    made |= {"num_padded": 0, "busy_ns": len(due) * took_ns, "num_workers": 1, "num_errors": len(failed), "error": None}
    return Served(**{**made, "ended_early": None, "defects": [], "seed": 3, **changes})


def of(made, protocol=Protocol.server, **server):
    return summarised(made, make_cell(protocol=protocol, server=Server(**server)))


def test_rates_latencies_and_where_the_time_went_are_those_of_the_requests():
    made = served(due_ns(4000, 50, seed=1))
    kept = of(made, latency_ms=80)
    assert (kept.seed, kept.num_requests, kept.num_errors, kept.batches) == (3, 4000, 0, {"1": 4000})
    assert (kept.offered_per_s, kept.served_per_s, kept.duration_s) == pytest.approx((50, 50, 80), rel=0.01)
    assert (kept.compute_s, kept.busy_share, kept.late_p99_s) == pytest.approx((0.01, 0.5, 0.0001), rel=0.01)
    assert kept.queue_s == pytest.approx(np.mean(made.dispatched - made.due) / 1e9)
    latencies = np.sort(made.done - made.due) / 1e9
    assert [quantile.percentile for quantile in kept.latencies] == [50, 90, 99, 99.9]
    for quantile in kept.latencies[:3]:
        assert quantile.seconds == latencies[int(quantile.percentile * 40) - 1]
        assert quantile.low <= quantile.seconds < quantile.high
    assert kept.latencies[3].seconds is None  # 4,000 requests are too few
    assert (kept.verdict, kept.num_missed) == (Verdict.passes, np.count_nonzero(latencies > 0.08))
    assert kept.miss_share_low <= kept.num_missed / 4000 < kept.miss_share_high < 0.01
    assert of(made, latency_ms=12).verdict == Verdict.fails


def test_a_run_that_its_time_limit_ended_tells_nothing():
    kept = of(served(due_ns(4000, 50, seed=1), ended_early=TIME_LIMIT), latency_ms=80)
    assert (kept.verdict, kept.ended_early) == (Verdict.unknown, TIME_LIMIT)


def test_a_request_without_an_answer_is_a_miss_and_not_served():
    due = due_ns(4000, 50, seed=1)
    kept = of(served(due, failed=range(0, 4000, 25), error="ValueError: no"), latency_ms=80)
    assert (kept.num_errors, kept.num_missed) == (160, 160 + of(served(due), latency_ms=80).num_missed)
    assert kept.verdict == Verdict.fails
    assert kept.served_per_s == pytest.approx(48, rel=0.01)
    assert [quantile.seconds is None for quantile in kept.latencies] == [False, False, True, True]
    nothing = of(served(due, failed=range(4000)))
    assert (nothing.served_per_s, nothing.compute_s, nothing.verdict) == (0, None, Verdict.fails)


def test_queries_one_after_another_have_percentiles_and_no_verdict_and_a_pile_has_neither():
    one_by_one = np.arange(100) * 10 * MS
    kept = of(served(one_by_one, late_ns=0), Protocol.single_stream)
    assert (kept.verdict, kept.num_missed, kept.late_p99_s) == (None, None, None)
    assert [quantile.seconds for quantile in kept.latencies] == [0.01, 0.01, None, None]
    assert (kept.offered_per_s, kept.served_per_s, kept.busy_share) == (100, 100, 1)
    pile = of(served(np.zeros(64, np.int64), late_ns=0, batches={8: 8}), Protocol.offline)
    assert (pile.served_per_s, pile.latencies, pile.batches) == (100, [], {"8": 8})


def test_the_file_of_requests_gives_back_the_times_and_its_digest_tells_others(tmp_path):
    made, path = served(due_ns(5, 50, seed=1)), tmp_path / "one.requests.npy"
    rows = [made.due, made.issued, made.dispatched, made.done]
    digest = write_times(rows, path)
    assert (np.load(path) == [made.due, made.issued, made.dispatched, made.done]).all()
    assert write_times(rows, tmp_path / "again.npy") == digest
    assert write_times([*rows[:3], made.done + 1], tmp_path / "other.npy") != digest
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.npy", "one.requests.npy", "other.npy"]
