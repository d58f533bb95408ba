from dataclasses import replace
from itertools import count

import pytest

from accelbench.answers.cells import Process, cells_of
from accelbench.answers.gaps import BATCH, pairs
from accelbench.answers.jobs import jobs
from accelbench.answers.serving import best_settings, capacities
from accelbench.answers.time_to_goal import target_answers
from accelbench.schema.cell import Definition, Engine, Precision, Protocol, Server, Status, Verdict
from accelbench.schema.measurement import Quantile
from fakes import make_cell, make_measurement, make_record, make_served, make_serving, make_trained

P, F, U = Verdict.passes, Verdict.fails, Verdict.unknown
SEEDS = count()


def probed(rate, verdict, status=Status.ok, environment=None, load=0.1, **changes):
    """The record of a probe, if not told otherwise too far from the limit to be joined; `changes`: cell or server."""
    of_server = {name: changes.pop(name) for name in vars(Server()) if name in changes}
    cell = make_cell(protocol=Protocol.server, server=Server(rate=rate, **of_server), **changes)
    seconds = load * cell.server.latency_ms / 1e3
    latencies = [Quantile(percentile=cell.server.percentile, seconds=seconds)]
    served = {"latencies": latencies, "num_missed": round(1000 * 0.01 ** (1 / load))}
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
    names = [("one", {"platform": "Linux 6"}), ("two", {}), ("one", {"platform": "Linux 7"})]
    places = [{"machine": {"cpu_name": name, **more}, "versions": {"torch": "2"}} for name, more in names]
    told = found(*(probed(100 * i, P, environment=place) for i, place in enumerate(places, start=1)))
    assert [each.low for each in told] == [100, 200, 300]
    names = [each.what.partition("server, ")[2] for each in told]
    assert names == ["one, platform Linux 6", "two", "one, platform Linux 7"]
    assert best_settings(told) == told


def test_what_only_told_a_search_where_to_begin_is_no_answer():
    cells = [make_cell(protocol=Protocol.offline, batch_size=2**i) for i in range(3)]
    offline = [replace(make_served(Protocol.offline, each), of_search=each is cells[0]) for each in cells]
    measured = cells_of(map(Process.of, [make_served(), *offline]))
    assert {each.cell.batch_size for group in jobs(measured) for each in group.cells} == {2, 4}
    assert {each.base.cell.batch_size for each in pairs(measured, BATCH)} == {2}


BF16 = {"precision": Precision.bf16_mixed}
FAST = [11.4, 12.9, 11.9, 12.3, 11.1, 12.6, 11.7, 12.1, 12.8, 11.6]
SLOW = [seconds * 1.3 for seconds in FAST]
LATER = "2026-11-21T09:00:00.000+00:00"
FIXED = {"target": {"definition": Definition.fixed}, "epochs": 10}


def runs(times, **changes):
    return [make_trained(seconds, seed=seed, **changes) for seed, seconds in enumerate(times)]


def answered(*records):
    return target_answers(cells_of(map(Process.of, records)))


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (runs(FAST), runs(SLOW, **BF16), "seeds), 1.30 times as fast as PyTorch bf16_mixed b32 (1.23 to 1.37; sure)."),
        (runs(FAST), runs(FAST, **BF16), "seeds), maybe not faster than PyTorch fp32 b32 (0.949 to 1.05; can't tell)."),
        # the lower median, but most pairs of runs contradict it
        (runs([10.0] * 11 + [30.0] * 9), runs([5.0, 10.1] * 10, **BF16), "in most pairs of runs not faster than "),
        (runs([12.0] * 6), runs([12.0] * 6, **BF16), "(1.00 to 1.00; same)."),
        (runs(FAST[:5]), runs(SLOW[:5], **BF16), "fp32 b32: 11.9 s (5 of 5 seeds), 1.30 times as fast as"),
        (runs(FAST[:5]), runs(SLOW[:5], **BF16), "; likely: fewer than 6 seeds)."),
        (runs(FAST[:2]), runs([20.0, 21.0], **BF16), "(can't tell: too few seeds for an interval)."),
        (runs(FAST[:3]), runs([20.0, 21.0, 22.0], **BF16), "(likely: too few seeds for an interval)."),
        (runs(FAST, **BF16), runs(SLOW, batch_size=64), "bf16_mixed b32: 12.1 s (11.4 to 12.8, 10 of 10 seeds)"),
        (runs(FAST), runs(SLOW, started_at=LATER, **BF16), "likely: they were not interleaved)."),
        (runs([*FAST[:9], None]), runs(SLOW, **BF16), "likely: fewer of its seeds arrive)."),
        (runs([None] * 6), [], "none reached it: PyTorch fp32 b32 (0 of 6 seeds)."),
        (runs([*FAST[:4], None, None]), [], "fp32 b32: 12.9 s (at least 11.4, 4 of 6 seeds)."),
        (runs(FAST, value=0.971, **FIXED), [], "(fixed length, epochs=10): PyTorch fp32 b32: 12.1 s (11.4 to 12.8, 10"),
        (runs(FAST[:1], **FIXED), [], "does not count: it is not sure that the mean of its seeds' last evaluations"),
    ],
)
def test_the_sentence_says_which_is_the_fastest_and_how_sure_that_is(first, second, said):
    (answer,) = answered(*first, *second)
    assert answer.sentence.startswith("mlp on mnist to accuracy at least 0.97 (")
    assert said in answer.sentence


@pytest.mark.parametrize(
    ("later", "said", "doubt"),
    [
        ({"seed": 10, "planned_in": "b"}, "11 of 11 seeds, 1 added later), 1.3", "likely: seeds were added later"),
        ({"seed": 10, "status": Status.oom}, "10 of 11 seeds, 1 failed), 1.29", "likely: fewer of its seeds arrive"),
        ({"seed": 3, "started_at": "2026-11-22T09:00:00.000+00:00"}, "10 of 10 seeds), 1.3", "sure"),
        ({"seed": 10, "status": Status.skipped}, "10 of 10 seeds), 1.3", "sure"),
    ],
)
def test_a_later_seed_is_marked_a_failed_one_is_no_arrival_and_a_second_run_of_a_seed_is_not_chosen(later, said, doubt):
    seeds = [*runs(FAST, planned_in="a"), make_trained(12.0 if later["seed"] == 10 else 0.1, **later)]
    (answer,) = answered(*seeds, *runs(SLOW, planned_in="a", **BF16))
    assert said in answer.sentence
    assert answer.sentence.endswith(f"; {doubt}).")


def test_seeds_that_are_planned_and_not_measured_leave_nothing_sure():
    cell = make_trained(12.0, seed=9, **BF16).cell
    missing = Process(cell=cell, name=f"{cell.id}-00000000", label="", record=None)
    (answer,) = target_answers(cells_of([*map(Process.of, runs(FAST) + runs(SLOW[:9], **BF16)), missing]))
    assert answer.settings[1].arrived_text == "9 of 9 seeds, 1 not measured"
    assert answer.leads[0].text.endswith("likely: not all planned seeds are measured)")


def test_workloads_are_told_apart_and_learning_rates_are_settings_of_one():
    other = runs(FAST[:2], target={"every": 0.5})
    rates = runs(SLOW[:2], model=replace(make_cell().model, learning_rate=0.01))
    first, second = answered(*runs(FAST[:2]), *other, *rates)
    assert [each.name for each in first.settings] == ["PyTorch fp32 b32 lr 0.001", "PyTorch fp32 b32 lr 0.01"]
    assert (first.what.endswith("target.every=1.0"), second.what.endswith("target.every=0.5")) == (True, True)
