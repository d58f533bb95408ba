from dataclasses import replace
from itertools import count

import pytest

from accelbench.answers.cells import Process, cells_of
from accelbench.answers.gaps import BATCH, pairs
from accelbench.answers.jobs import jobs
from accelbench.answers.serving import best_settings, capacities
from accelbench.schema.cell import Engine, Protocol, Server, Status, Verdict
from accelbench.schema.measurement import Quantile
from fakes import make_cell, make_measurement, make_record, make_served, make_serving

P, F, U = Verdict.passes, Verdict.fails, Verdict.unknown
SEEDS = count()


def probed(rate, verdict, status=Status.ok, environment=None, load=0.1, effect=4.0, **changes):
    """The record of a probe, if not told otherwise too far from the limit to be joined; `changes`: cell or server."""
    of_server = {name: changes.pop(name) for name in vars(Server()) if name in changes}
    cell = make_cell(protocol=Protocol.server, server=Server(rate=rate, **of_server), **changes)
    seconds = load * cell.server.latency_ms / 1e3
    latencies = [Quantile(percentile=cell.server.percentile, seconds=seconds)]
    served = {"latencies": latencies, "num_missed": round(1000 * 0.01 ** (1 / load)), "design_effect": effect}
    measured = make_measurement(serving=make_serving(cell, seed=next(SEEDS), verdict=verdict, **served))
    return make_record(cell, status=status, environment=environment or {}, measurement=measured)


def found(*records):
    return capacities(cells_of(map(Process.of, records)))


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([(412, P), (431, F)], "412 to 431 requests/s with p99 at most 50 ms (likely)"),
        ([(400, P), (412, P), (431, F)], "400 to 431 requests/s with p99 at most 50 ms (sure)"),
        ([(412, P), (500, U)], "at least 412 requests/s with p99 at most 50 ms (likely)"),
        ([(10, F), (500, P)], "can't tell at 10.0 to 500 requests/s which rates keep p99 at most 50 ms: increase"),
        ([(1431, F), (412, U)], "fewer than 1,430 requests/s with p99 at most 50 ms (sure)"),
        ([(412, P, {"status": Status.invalid}), (500, U)], "can't tell at 500 requests/s"),
    ],
)
def test_the_sentence_of_single_probes_says_whether_it_was_confirmed(records, said):
    (capacity,) = found(*(probed(rate, verdict, **(more[0] if more else {})) for rate, verdict, *more in records))
    assert capacity.sentence.startswith(f"PyTorch fp32, batches of at most 32: {said}")


def test_probes_near_the_limit_are_joined():
    near = [probed(80, U, load=1 / 1.2), probed(80, U, load=1 / 1.2, repeat=1), probed(100, U, load=1 / 0.8)]
    (capacity,) = found(*near)
    assert capacity.low < 90 < capacity.high
    assert (capacity.how_sure, capacity.number("offered_per_s")) == ("sure", 80)
    assert found(*near[1:])[0].how_sure == "likely"
    invalid = [probed(80, P, Status.invalid, repeat=i) for i in range(2, 6)]
    assert [found(*near, *invalid[:num])[0].how_sure for num in (3, 4)] == ["sure", "likely"]


def test_settings_are_ordered_within_what_compares_and_the_percentile_is_the_cells_own():
    slow = [probed(100, P), probed(120, F)]
    fast = [probed(rate, v, engine=Engine.openvino, max_delay_ms=2.0, batch_size=8) for rate, v in ((300, P), (400, F))]
    other = [probed(900, P, percentile=90.0, latency_ms=20.0)]
    longer = [probed(110, P, duration_s=40.0, seed=1)]
    told = found(*slow, *other, *fast, *longer)
    assert [(each.low, each.high) for each in told] == [(300, 400), (100, 120), (900, None)]
    assert told[0].setting == "OpenVINO fp32, batches of at most 8, 2 ms delay"
    assert "p90 at most 20 ms" in told[2].sentence
    assert told[2].what.endswith(", server.latency_ms=20.0, server.percentile=90.0")
    assert best_settings(told) == [told[0], told[2]]
    assert [probe.seen.rate for probe in told[1].probes] == [100, 110, 120]


def test_other_machines_and_packages_are_told_apart():
    names = [("one", {}), ("two", {}), ("one", {"platform": "Linux 7"})]
    places = [{"machine": {"cpu_name": name, **more}, "versions": {"torch": "2"}} for name, more in names]
    told = found(*(probed(100 * i, P, environment=place) for i, place in enumerate(places[:2], start=1)))
    assert [each.low for each in told] == [100, 200]
    assert told[0].what.endswith(", one")
    assert best_settings(told) == told
    told = found(*(probed(100, P, environment=place) for place in places))
    assert len(best_settings(told)) == 3
    assert told[2].what.endswith(", one, platform Linux 7")


def test_what_only_told_a_search_where_to_begin_is_no_answer():
    cells = [make_cell(protocol=Protocol.offline, batch_size=2**i) for i in range(3)]
    offline = [replace(make_served(Protocol.offline, each), of_search=each is cells[0]) for each in cells]
    measured = cells_of(map(Process.of, [make_served(), *offline]))
    assert {each.cell.batch_size for group in jobs(measured) for each in group.cells} == {2, 4}
    assert {each.base.cell.batch_size for each in pairs(measured, BATCH)} == {2}
