"""What is said of weights that change and of those that do not, and of the formats of products."""

import math

import pytest

from accelbench.measuring.promises import Products, State, Training

NAMES = ["body.weight", "body.bias", "head.weight"]
SIZES = dict(zip(NAMES, (1000, 10, 1000), strict=True))
WITH_GRADIENTS = {"gradients": set(NAMES), "reached": set(NAMES)}


def states(*checksums, largest=1.0):
    return {name: State(checksum, largest) for name, checksum in zip(NAMES, checksums, strict=True)}


def seen(start, end, later=None, **more):
    made = Training(names=NAMES, start=states(*start), end=states(*end), later=later and states(*later), **more)
    return list(made.defects()), list(made.warnings())


def test_training_that_changes_all_weights_is_sound_and_without_states_nothing_is_said():
    assert seen((1, 2, 3), (4, 5, 6)) == ([], [])
    assert seen((1, 2, 3), (4, 5, 6), (7, 8, 9), **WITH_GRADIENTS) == ([], [])
    for made in (Training(), Training(names=NAMES)):
        assert (list(made.defects()), list(made.warnings())) == ([], [])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, ""),
        ({"learning_rates": [0.0, 0.0]}, " (the learning rate is 0)"),
        ({"gradients": set()}, " (none got a gradient)"),
        ({"gradients": set(), "reached": {NAMES[0]}}, " (their gradients are 0)"),
    ],
)
def test_nothing_changes(more, why):
    told = f"nothing was trained: no trainable weight changed in the measured steps{why}"
    assert seen((1, 2, 3), (1, 2, 3), **more) == ([told], [])


def test_weights_that_only_decay_are_not_trained():
    told = "nothing was trained: the gradients of all weights are 0"
    assert seen((1, 2, 3), (4, 5, 6), gradients=set(), reached=set(NAMES))[0] == [told]
    assert seen((1, 2, 3), (4, 5, 6), gradients=set())[0] == []  # without backward(), as by torch.autograd.grad


STILL = "weights that did not change while it trained: "


@pytest.mark.parametrize(
    ("end", "later", "more", "told"),
    [
        ((1, 2, 6), None, {}, f"{STILL}2 of 3 tensors (body.weight, body.bias)"),
        ((1, 5, 6), (7, 8, 9), {}, None),  # as an expert that got its first sample late
        ((1, 5, 6), None, {"is_coarse": True, **WITH_GRADIENTS}, None),
        ((4, 2, 6), None, {"sizes": SIZES}, None),
        ((1, 5, 6), None, {"sizes": SIZES}, f"{STILL}1 of 3 tensors (body.weight)"),
        ((4, 5, 6), None, {"evaluating": ["a", "b", "c", "d"]}, "in evaluation mode, although it trains: a, b, c"),
    ],
)
def test_some_do_not_change_or_do_not_train(end, later, more, told):
    assert seen((1, 2, 3), end, later, **more)[1] == ([] if told is None else [told])


def test_training_that_stops_on_the_way():
    stopped = {"looked": states(4, 5, 6), **WITH_GRADIENTS}
    told = "training stopped while it was measured: from then on no trainable weight changed"
    assert seen((1, 2, 3), (4, 5, 6), (4, 5, 6), **stopped)[0] == [told]
    assert seen((1, 2, 3), (4, 5, 6), (7, 5, 6), **stopped)[0] == []  # gradients are accumulated by hand
    assert seen((1, 2, 3), (4, 5, 6), num_after_look=0, looked=states(4, 5, 6))[0] == []  # it was the last step


@pytest.mark.parametrize(
    ("more", "is_enough"),
    [
        *(({"num_steps": 4, "cycle": 8}, False), ({"num_steps": 4, "cycle": None, "num_still": 8}, False)),
        *(({"num_steps": 8, "cycle": 8}, True), ({"num_steps": 4, "cycle": None, "num_still": 60}, True)),
        ({"num_steps": 1}, True),
    ],
)
def test_gradients_that_are_accumulated_over_more_steps_than_were_run_accuse_nobody(more, is_enough):
    made = Training(names=NAMES, start=states(1, 2, 3), end=states(1, 2, 3), **more)
    assert (len(list(made.defects())), len(list(made.notes()))) == ((1, 0) if is_enough else (0, 1))
    assert made.is_observed == is_enough


@pytest.mark.parametrize("largest", [math.nan, math.inf, 1e200])
def test_weights_that_blow_up(largest):
    made = Training(names=NAMES, start=states(1, 2, 3), end=states(4, 5, 6, largest=largest))
    told = "after training, weights are not finite: 3 of 3 tensors (body.weight, body.bias, head.weight)"
    assert list(made.defects()) == [told]


def test_a_coarser_format_is_told_apart_from_a_finer_one():
    found = Products(flops={"bfloat16": 30, "float32": 68, "float64": 2})
    told = "{} of the operations of matrix products ran in {}, not in float32"
    assert list(found.others("float32", coarser=True)) == [told.format("30 %", "bfloat16")]
    assert list(found.others("float32", coarser=False)) == [told.format("2 %", "float64")]
    assert list(Products(flops={"bfloat16": 1, "float32": 999}).others("float32", coarser=True)) == []
    found = Products(flops={"bfloat16": 1, "float32": 3, "float64": 0})
    assert (found.most, found.shares()) == ("float32", {"float32": 0.75, "bfloat16": 0.25})
    assert found.observed() == "matrix products of one step: 75 % in float32, 25 % in bfloat16"
    assert (Products().most, Products().observed()) == (None, "one step, which has no matrix products")
