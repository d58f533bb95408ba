"""Trainings to a target of the Keras engine."""

import numpy as np
import pytest

from accelbench.data.order import VALIDATION, parts_of
from accelbench.engines.keras import engine
from accelbench.engines.keras.feed import feed_of
from accelbench.judging.verdict import judge
from accelbench.schema.cell import Target
from accelbench.schema.vocab import Mode, Protocol, Span
from engines.keras.cells import SGD, keras_cell


def cell_to_goal(keras=None, **target):
    target = Target(**{"accuracy": 0.9, **target})
    return keras_cell(keras, mode=Mode.train, protocol=Protocol.target, model=SGD, epochs=8, target=target)


@pytest.mark.parametrize(("keras", "every"), [({}, 0.5)])
def test_it_trains_up_to_the_evaluation_after_the_hit(digits, keras, every):
    cell = cell_to_goal(keras, every=every)
    measured = engine.run(cell, digits)
    training = measured.target
    assert judge(cell, measured) is None
    values = [evaluation.value for evaluation in training.evaluations]
    assert [value >= 0.9 for value in values[:-1]] == [False] * (len(values) - 2) + [True]
    assert (training.hit, training.num_validation) == (len(values) - 2, 30)
    assert training.stayed == (values[-1] >= 0.9)
    assert training.evaluations[-1].num_steps == round(len(values) * every * 9)
    assert training.tested == measured.evaluation.accuracy >= 0.8
    assert 0 < training.compile_s <= sum(span.seconds for span in training.log if span.span == Span.train)


def test_it_is_evaluated_on_what_it_does_not_train_on(digits):
    cell = cell_to_goal()
    train, held_out = feed_of(cell, "train", digits), feed_of(cell, VALIDATION, digits)
    chosen = [np.concatenate(list(train.order)), parts_of(300, 0.1)[1]]
    assert sorted(np.concatenate(chosen)) == list(range(300))
    assert np.array_equal(next(iter(held_out))[0], train.arrays[0][chosen[1]])
