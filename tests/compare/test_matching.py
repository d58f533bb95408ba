import dataclasses

import pytest

from accelbench.compare.matching import match
from accelbench.compare.sureness import are_interleaved, compare_processes
from accelbench.errors import UserError
from accelbench.schema.cell import ModelSpec
from accelbench.schema.vocab import Precision
from compare.conftest import process


def processes(num=5, **changes):
    return [process(repeat=repeat, **changes) for repeat in range(num)]


def compared(one):
    return compare_processes(one.first, one.second, anyway=True)


def test_cells_that_are_equal_but_for_the_repeat_are_a_pair():
    first = processes(batch_size=8) + processes(batch_size=16)
    second = processes(batch_size=16, rate=200.0, num=6) + processes(batch_size=32) + processes(batch_size=8)
    matching = match(first, second)
    assert [one.label for one in matching.pairs] == ["mlp-cpu-fp32-b8-infer", "mlp-cpu-fp32-b16-infer"]
    assert (matching.varied, matching.num_unpaired) == ({}, 1)
    assert [compared(one).ratio for one in matching.pairs] == pytest.approx([1.0, 2.0])
    assert compared(matching.pairs[1]).num_second == 6
    assert match(processes(suite="one"), processes(suite="two", timeout_s=5.0)).varied == {}
    models = [ModelSpec(name="mlp", args={"units": units}) for units in (8, 9)]
    sides = [process for model in models for process in processes(model=model)]  # of one label
    assert [one.label.rpartition("-")[2] for one in match(sides, sides).pairs] == ["units=8", "units=9"]


def test_a_setting_in_which_the_sides_differ_throughout_is_what_is_compared():
    first = processes(batch_size=8) + processes(batch_size=16)
    second = [dataclasses.replace(p, cell=dataclasses.replace(p.cell, precision=Precision.bf16)) for p in first]
    matching = match(first, second[:5])
    assert matching.varied == {"precision": "fp32 | bf16"}
    assert [one.label for one in matching.pairs] == ["mlp-cpu-bf16-b8-infer"]
    assert matching.num_unpaired == 1
    cnn = ModelSpec(name="cnn", args={"width": 3})
    varied = match(processes(), processes(model=cnn, batch_size=64)).varied
    assert set(varied) == {"model.name", "model.args.width", "batch_size"}
    assert varied["model.args.width"] == "none | 3"


def test_sides_that_cannot_be_paired_are_refused():
    both = processes(batch_size=8) + processes(batch_size=16)
    with pytest.raises(
        UserError,
        match=r"differ in batch_size, but A or B has several values itself: mlp-cpu-fp32-b8.* and mlp-cpu-fp32-b16",
    ):
        match(both, processes(batch_size=32))
    first = processes(batch_size=8) + processes(batch_size=16, seed=1)
    with pytest.raises(UserError, match=r"no cell of A matches a cell of B. A has mlp-cpu-fp32-b16-infer-s1, mlp-"):
        match(first, processes(batch_size=16) + processes(batch_size=8, seed=1))


@pytest.mark.parametrize(
    ("order", "took"),
    [("ABABABABAB", True), ("ABBAABBAAB", True), ("AAAAABBBBB", False), ("AAABABBABB", True), ("AABBAABBAB", True)]
    + [("BBAAAABBBA", False), ("AAAABBBBBA", False), ("AB", True), ("BA", True), ("ABBBBB", True), ("AABBB", False)],
)
def test_turns_are_seen_from_when_each_began(order, took):
    sides = [[process(at=at) for at, side in enumerate(order) if side == which] for which in "AB"]
    assert are_interleaved(*sides) is took


@pytest.mark.parametrize(("node", "is_interleaved"), [("one", True), ("node{repeat}", True), ("node{side}", False)])
def test_on_several_nodes_both_sides_have_to_run_in_turns_on_each(node, is_interleaved):
    sides = ([], [])
    for at in range(12):
        name = node.format(repeat=at // 2 % 2, side=at % 2)
        sides[at % 2].append(process(at=at, environment={"node": {"name": name}}))
    assert are_interleaved(*sides) == is_interleaved
