"""Trainings to a target, compared with known results."""

from dataclasses import replace

import pytest

from accelbench.data.arrays import load_split
from accelbench.data.order import parts_of
from accelbench.engines.pytorch import engine
from accelbench.judging.row import of_training, summarise
from accelbench.schema.cell import Library, ModelSpec, Span, Stop
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import load, plain
from engines.cells import MLP, cell_to_goal, measured
from fakes import make_record


def late(num, **changes):
    """A network that answers right from step `num` on. An epoch of 270 samples has 9 steps."""
    network = {"library": Library.custom, "network": "own_code.Late", "args": {"num": num}}
    return ModelSpec(name="late", optimizer="sgd", learning_rate=1e-6, **{**network, **changes})


@pytest.mark.parametrize(
    ("num", "settings", "hit_epochs", "num_evaluations"),
    [(10, {}, 2.0, 3), (10, {"every_steps": 4}, 12 / 9, 4), (99, {}, None, 5), (1, {"definition": "fixed"}, 5.0, 1)],
)
def test_a_network_that_is_right_from_a_step_on(digits, num, settings, hit_epochs, num_evaluations):
    measurement = measured(engine, cell_to_goal(late(num), settings), digits)
    training = measurement.target
    assert load(Measurement, plain(measurement)) == measurement
    assert (len(training.evaluations), training.num_validation) == (num_evaluations, 30)
    reached = None if training.hit is None else training.evaluations[training.hit].epochs
    assert reached == pytest.approx(hit_epochs, abs=0.1)
    assert training.tested == (hit_epochs is not None)
    assert {evaluation.value for evaluation in training.evaluations} <= {0.0, 1.0}
    assert measurement.epochs == [] == measurement.blocks
    assert sum(span.seconds for span in training.log) >= 0.99 * training.log[-1].ended_s
    assert [span.span for span in training.log[:4]] == [Span.start, Span.data, Span.build, Span.train]


@pytest.mark.parametrize("target", [{"accuracy": 1.0}, {"definition": "fixed", "accuracy": 0.01}])
def test_it_ends_before_its_time_limit_as_not_arrived(digits, target):
    cell = cell_to_goal(replace(MLP, learning_rate=1e-6), target, epochs=10**7, timeout_s=1.0)
    measurement = measured(engine, cell, digits)
    last = measurement.target.evaluations[-1]
    assert (measurement.stop, measurement.target.hit) == (Stop.timeout, None)
    assert 0 < last.epochs < 10**7
    record = make_record(cell, measurement=measurement)
    assert record.was_cut(600.0)
    row = summarise(record)
    assert (row["target_reached"], row["target_budget_s"]) == (False, last.ended_s)
    assert "of at most 10000000 epochs, timeout_s" in row["warnings"]


def test_equal_seeds_give_equal_curves_and_other_seeds_others(digits):
    curves = []
    for seed in (0, 0, 1):
        training = engine.run(cell_to_goal(seed=seed, target={"accuracy": 1.0, "metric": "accuracy"}), digits).target
        assert training.deterministic
        curves.append([evaluation.value for evaluation in training.evaluations])
    assert curves[0] == curves[1] != curves[2]


def test_an_own_metric_is_a_mean_over_samples_and_its_time_is_no_training(digits):
    model = late(1, loss="own_code.squares", metric="own_code.mean_label")
    target = {"accuracy": None, "metric": "metric", "value": 9.0}
    cell = cell_to_goal(model, target, epochs=2, batch_size=16)
    training = engine.run(cell, digits).target
    mean = load_split(digits, "train").labels[parts_of(300, 0.1)[1]].mean()
    evaluations = [(evaluation.num_samples, evaluation.value) for evaluation in training.evaluations]
    assert evaluations == [(270, pytest.approx(mean)), (540, pytest.approx(mean))]
    assert training.tested == pytest.approx(load_split(digits, "test").labels.mean())
    early = engine.run(cell_to_goal(model, {**target, "value": 1.0}, epochs=2), digits).target
    reached = of_training(make_record(cell), early)
    assert reached["target_s"] - reached["target_train_s"] >= 0.05


@pytest.mark.parametrize("target", [{}, {"accuracy": None, "metric": "loss", "value": 0.1}])
def test_a_loss_that_is_not_finite_ends_it_as_not_arrived(digits, target):
    measurement = measured(engine, cell_to_goal(late(1, loss="own_code.diverging"), target), digits)
    assert [evaluation.value for evaluation in measurement.target.evaluations] == [None]
    assert (measurement.target.hit, measurement.evaluation.loss) == (None, None)
