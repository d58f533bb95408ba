"""When a training to a target is evaluated, and when it ends."""

import pytest

from accelbench.data.order import Order, parts_of
from accelbench.engines.goal import GoalRun, ends_of
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import (
    Definition,
    Target,
)
from engines.cells import cell_to_goal


@pytest.mark.parametrize(
    ("settings", "ends"),
    [
        ({}, [10, 20, 30]),
        ({"every": 0.25}, [2, 5, 8, 10, 12, 15, 18, 20, 22, 25, 28, 30]),
        ({"every": 0.01}, list(range(1, 31))),
        ({"every": 2.0}, [20, 30]),
        ({"every": 9.0}, [30]),
        ({"every_steps": 12}, [12, 24, 30]),
        ({"definition": Definition.fixed}, [30]),
    ],
)
def test_it_is_evaluated_as_often_as_asked_and_at_the_end_or_after_a_call_of_several_steps(settings, ends):
    assert list(ends_of(Target(accuracy=0.9, **settings), 3, 10)) == ends
    assert list(ends_of(Target(accuracy=0.9, every_steps=8), 2, 5, in_call=4)) == [2, 4, 6, 8, 10]


@pytest.mark.parametrize(
    ("settings", "values", "hit", "stayed", "num_evaluations"),
    [
        ({}, [0.5, 0.9, 0.95, 1.0], 1, True, 3),
        ({}, [0.5, 0.9, 0.85, 1.0], 1, False, 3),
        ({}, [0.5, 0.6, 0.7, 0.95], 3, None, 4),
        ({}, [0.5, 0.6, 0.7, 0.8], None, None, 4),
        ({}, [0.5, None, 0.9, 0.9], None, None, 2),
        ({"definition": Definition.fixed}, [0.95], 0, None, 1),
        ({"definition": Definition.fixed}, [0.85], None, None, 1),
        ({"metric": "loss", "accuracy": None, "value": 0.2}, [0.5, 0.19, 0.21], 1, False, 3),
    ],
)
def test_it_ends_after_the_evaluation_that_follows_the_hit(settings, values, hit, stayed, num_evaluations):
    run = GoalRun(cell_to_goal(epochs=4, target=settings))
    run.plan(Order(100, 32, last="keep"))  # 4 steps in an epoch
    num_steps = 0
    while not run.is_over:
        num_steps += len(list(run.interval_of(iter(range(1000)))))
        run.evaluated(values[len(run.training.evaluations)])
    assert num_steps == (16 if len(values) == 1 else 4 * num_evaluations)
    assert (run.training.hit, run.training.stayed, len(run.training.evaluations)) == (hit, stayed, num_evaluations)


def test_samples_and_epochs_of_parts_of_an_epoch():
    run = GoalRun(cell_to_goal(epochs=2, target={"every": 0.5}))
    run.plan(Order(100, 32, last="keep"))
    for _ in range(2):
        assert len(list(run.interval_of(iter(range(1000))))) == 2
        run.evaluated(0.1)
    evaluations = [(each.num_steps, each.num_samples, each.epochs) for each in run.training.evaluations]
    assert evaluations == [(2, 64, 0.64), (4, 100, 1.0)]


def test_the_split_is_disjoint_and_depends_on_the_data_alone():
    train, held_out = parts_of(1000, 0.1)
    assert len(held_out) == 100
    assert sorted([*train, *held_out]) == list(range(1000))
    assert held_out.mean() > 149.5  # drawn from the whole set, not from its start
    orders = [Order(900, 32, shuffle=True, seed=seed, last="keep", among=train) for seed in (0, 1)]
    first, second = (list(next(order.epochs())) for order in orders)
    assert sorted(first) == sorted(second) == list(train)
    assert first != second
    for share, num in ((0.004, 0), (0.999, 100)):
        with pytest.raises(UnsupportedError, match=rf"target.validation={share:g}: holds out {num} of 100 tra"):
            parts_of(100, share)


@pytest.mark.parametrize("devices", [1, 2])
def test_out_of_time_one_device_stops_after_a_step_and_several_after_an_evaluation(devices):
    run = GoalRun(cell_to_goal(devices=devices), until_s=0.0)
    run.plan(Order(100, 32, last="keep"))
    assert len(list(run.interval_of(iter(range(9))))) == (1 if devices == 1 else 4)
    assert run.is_cut == (devices == 1)
    assert run.is_late()
    run.evaluated(0.5)
    assert run.is_over
