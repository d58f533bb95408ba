import dataclasses

import pytest

from accelbench.compare.pairs import pair
from accelbench.compare.record_sets import Process
from accelbench.errors import UserError
from accelbench.schema.vocab import Precision, Status
from accelbench.schema.workload import ModelSpec
from accelbench.sweep import interleaved
from fakes import make_cell


def process(rate=100.0, status=Status.ok, started_at="2026-11-20T09:00:00", **changes):
    rates = [rate] * 3 if status == Status.ok else []
    return Process(
        cell=make_cell(**changes),
        status=status,
        started_at=started_at,
        environment={},
        data=None,
        rates=rates,
        was_beside_others=False,
    )


def processes(num=5, **changes):
    return [process(repeat=repeat, **changes) for repeat in range(num)]


def test_cells_that_are_equal_but_for_the_repeat_are_a_pair():
    first = processes(batch_size=8) + processes(batch_size=16)
    second = processes(batch_size=16, rate=200.0, num=6) + processes(batch_size=32) + processes(batch_size=8)
    found = pair(first, second)
    assert [one.label for one in found.pairs] == ["mlp-cpu-fp32-b8-infer", "mlp-cpu-fp32-b16-infer"]
    assert (found.varied, found.num_unpaired) == ({}, 1)
    assert found.pairs[0].compare(anyway=True).ratio == pytest.approx(1.0)
    assert found.pairs[1].compare(anyway=True).ratio == pytest.approx(2.0)
    assert found.pairs[1].compare(anyway=True).num_second == 6


def test_pairs_whose_cells_have_one_label_are_told_apart():
    sides = processes(model=ModelSpec(name="mlp", args={"units": 8})) + processes(
        model=ModelSpec(name="mlp", args={"units": 9})
    )
    labels = [one.label for one in pair(sides, sides).pairs]
    assert labels == ["mlp-cpu-fp32-b32-infer-units=8", "mlp-cpu-fp32-b32-infer-units=9"]


def test_the_suite_and_the_time_limit_are_no_part_of_it():
    assert pair(processes(suite="one"), processes(suite="two", timeout_s=5.0)).varied == {}


def test_a_setting_in_which_the_sides_differ_throughout_is_what_is_compared():
    first = processes(batch_size=8) + processes(batch_size=16)
    second = [dataclasses.replace(p, cell=dataclasses.replace(p.cell, precision=Precision.bf16)) for p in first]
    found = pair(first, second[:5])
    assert found.varied == {"precision": (['"fp32"'], ['"bf16"'])}
    assert [one.label for one in found.pairs] == ["mlp-cpu-bf16-b8-infer"]
    assert found.num_unpaired == 1


def test_models_are_compared_with_all_that_comes_with_them():
    cnn = ModelSpec(name="cnn", args={"width": 3})
    found = pair(processes(), processes(model=cnn, batch_size=64))
    assert set(found.varied) == {"model.name", "model.args.width", "batch_size"}
    assert found.varied["model.args.width"] == (["none"], ["3"])


def test_cells_that_cannot_be_told_apart_are_refused():
    both = processes(batch_size=8) + processes(batch_size=16)
    with pytest.raises(
        UserError, match=r"A and B differ in batch_size, and so do mlp-cpu-fp32-b8.* and mlp-cpu-fp32-b16"
    ):
        pair(both, processes(batch_size=32))


def test_sides_with_nothing_in_common_are_refused():
    first = processes(batch_size=8) + processes(batch_size=16, seed=1)
    second = processes(batch_size=16) + processes(batch_size=8, seed=1)
    with pytest.raises(UserError, match=r"no cell of A matches one of B. A has mlp-cpu-fp32-b16-infer-s1, mlp-"):
        pair(first, second)


def test_only_processes_that_ended_well_count():
    broken = [process(status=Status.failed, repeat=9)]
    (one,) = pair(processes(4) + broken, processes(5)).pairs
    assert (one.compare(anyway=True).num_first, one.compare(anyway=True).num_second) == (4, 5)
    assert not one.is_skipped
    (one,) = pair([process(status=Status.skipped)], [process(status=Status.skipped)]).pairs
    assert one.is_skipped


@pytest.mark.parametrize(
    ("order", "took"),
    [("ABABABABAB", True), ("ABBAABBAAB", True), ("AAAAABBBBB", False), ("AAABABBABB", True), ("AABBAABBAB", True)]
    + [("BBAAAABBBA", False), ("AAAABBBBBA", False), ("AB", True), ("BA", True), ("ABBBBB", True), ("AABBB", False)],
)
def test_turns_are_seen_from_when_each_began(order, took):
    made = [process(repeat=hour, started_at=f"2026-11-20T{hour:02}:00:00") for hour in range(len(order))]
    sides = [[one for one, side in zip(made, order, strict=True) if side == which] for which in "AB"]
    (one,) = pair(*sides).pairs
    assert one.is_interleaved is took


def test_rounds_drawn_at_random_are_turns():
    for seed in range(200):
        drawn = interleaved.shuffled_runs(make_cell(), make_cell(), 5, seed)
        made = [process(repeat=turn, started_at=f"2026-11-20T{turn:02}:00:00") for turn in range(10)]
        sides = [[one for one, which in zip(made, drawn.is_second, strict=True) if which is w] for w in (False, True)]
        (one,) = pair(*sides).pairs
        assert one.is_interleaved


def test_on_several_nodes_both_sides_have_to_run_in_turns_on_each():
    def sides(node_of):
        starts = iter(f"2026-11-20T09:{minute:02}:00" for minute in range(20))
        both = [
            [process(repeat=repeat, batch_size=size, started_at=next(starts)) for size in (8, 16)]
            for repeat in range(6)
        ]
        on_nodes = [
            [
                dataclasses.replace(each, environment={"node": {"name": node_of(repeat, side)}})
                for side, each in enumerate(pair)
            ]
            for repeat, pair in enumerate(both)
        ]
        return [list(side) for side in zip(*on_nodes, strict=True)]

    for node_of, is_interleaved in (
        (lambda repeat, side: "one", True),
        (lambda repeat, side: f"node{repeat % 2}", True),
        (lambda repeat, side: f"node{side}", False),
    ):
        (found,) = pair(*sides(node_of)).pairs
        assert found.is_interleaved == is_interleaved
