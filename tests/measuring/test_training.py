"""What is said of weights that change, and of those that do not."""

import math

import pytest

from accelbench.measuring.training import State, Training

NAMES = ["body.weight", "body.bias", "head.weight"]


def states(*checksums, largest=1.0):
    return {name: State(checksum, largest) for name, checksum in zip(NAMES, checksums, strict=True)}


def seen(start, end, later=None, **more):
    made = Training(names=NAMES, start=states(*start), end=states(*end), later=later and states(*later), **more)
    return list(made.defects()), list(made.warnings())


def test_training_that_changes_all_weights_is_sound():
    assert seen((1, 2, 3), (4, 5, 6)) == ([], [])
    assert seen((1, 2, 3), (4, 5, 6), (7, 8, 9), gradients=set(NAMES), reached=set(NAMES)) == ([], [])


def test_without_states_nothing_is_said():
    assert (list(Training().defects()), list(Training().warnings())) == ([], [])
    assert (list(Training(names=NAMES).defects()), list(Training(names=NAMES).warnings())) == ([], [])


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
    (defect,), warnings = seen((1, 2, 3), (1, 2, 3), **more)
    assert defect == f"nothing was trained: no trainable weight changed in the measured steps{why}"
    assert warnings == []


def test_weights_that_only_decay_are_not_trained():
    assert seen((1, 2, 3), (4, 5, 6), gradients=set(), reached=set(NAMES))[0] == [
        "nothing was trained: the gradients of all weights are 0"
    ]
    assert seen((1, 2, 3), (4, 5, 6), gradients=set())[0] == []  # without backward(), as by torch.autograd.grad


def test_some_do_not_change():
    assert seen((1, 2, 3), (1, 2, 6))[1] == [
        "weights that did not change while it trained: 2 of 3 tensors (body.weight, body.bias)"
    ]
    assert seen((1, 2, 3), (1, 5, 6), (7, 8, 9))[1] == []  # as an expert that got its first sample late
    coarse = {"is_coarse": True, "gradients": set(NAMES), "reached": set(NAMES)}
    assert seen((1, 2, 3), (1, 5, 6), **coarse)[1] == []
    sizes = dict(zip(NAMES, (1000, 10, 1000), strict=True))
    assert seen((1, 2, 3), (4, 2, 6), sizes=sizes)[1] == []
    assert seen((1, 2, 3), (1, 5, 6), sizes=sizes)[1] != []


def test_training_that_stops_on_the_way():
    stopped = {"looked": states(4, 5, 6), "gradients": set(NAMES), "reached": set(NAMES)}
    assert seen((1, 2, 3), (4, 5, 6), (4, 5, 6), **stopped)[0] == [
        "training stopped while it was measured: from then on no trainable weight changed"
    ]
    assert seen((1, 2, 3), (4, 5, 6), (7, 5, 6), **stopped)[0] == []  # gradients are accumulated by hand


def test_gradients_that_are_accumulated_over_more_steps_than_were_run_accuse_nobody():
    still = {"names": NAMES, "start": states(1, 2, 3), "end": states(1, 2, 3)}
    for few in ({"num_steps": 4, "cycle": 8}, {"num_steps": 4, "cycle": None, "num_still": 8}):
        made = Training(**still, **few)
        assert (list(made.defects()), len(list(made.notes())), made.is_observed) == ([], 1, False)
    for enough in ({"num_steps": 8, "cycle": 8}, {"num_steps": 4, "cycle": None, "num_still": 60}, {"num_steps": 1}):
        made = Training(**still, **enough)
        assert (len(list(made.defects())), list(made.notes()), made.is_observed) == (1, [], True)


def test_a_look_at_the_last_step_says_nothing():
    made = Training(names=NAMES, start=states(1, 2, 3), looked=states(4, 5, 6), end=states(4, 5, 6), num_after_look=0)
    assert list(made.defects()) == []


@pytest.mark.parametrize("largest", [math.nan, math.inf, 1e200])
def test_weights_that_blow_up(largest):
    made = Training(names=NAMES, start=states(1, 2, 3), end=states(4, 5, 6, largest=largest))
    assert list(made.defects()) == [
        "after training, weights are not finite: 3 of 3 tensors (body.weight, body.bias, head.weight)"
    ]


def test_layers_in_evaluation_mode_are_named():
    assert seen((1, 2, 3), (4, 5, 6), evaluating=["a", "b", "c", "d"])[1] == [
        "in evaluation mode, although it trains: a, b, c"
    ]
