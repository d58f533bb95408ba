"""Keras cells whose work is not what was asked for: a layer, an optimiser or a compiled function at fault."""

from dataclasses import replace

import keras
import numpy as np
import pytest

from accelbench.engines.keras import engine, networks, on_tensorflow
from accelbench.judging.asked import judge
from accelbench.measuring.output_check import STALE
from accelbench.schema.vocab import Mode, Pipeline, Precision, Promise, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from engines.keras.cells import SGD, keras_cell

NUM_TENSORS = 6
# A few steps of training that is judged: the template looks after one of the blocks of two.
STEPS = {"mode": Mode.train, "protocol": Protocol.steps, "warmup": 2, "steps": 20}
IN_EPOCHS = {"mode": Mode.train, "protocol": Protocol.fit, "epochs": 2}


def judged(digits, keras_settings=None, **changes):
    """Why the cell is invalid, and its measurement."""
    cell = keras_cell(keras_settings, **{"model": SGD, **changes})
    measured = engine.run(cell, digits)
    return judge(cell, measured), measured


def seen(measured, promise):
    """What was observed of a promise: its words and share."""
    return [(check.observed, check.share) for check in measured.checks if check.promise == promise]


@pytest.mark.parametrize("how", [STEPS, IN_EPOCHS], ids=["steps", "epochs"])
def test_honest_training_is_seen_to_train(digits, how):
    reason, measured = judged(digits, **how)
    words = f"{NUM_TENSORS} of {NUM_TENSORS} trainable tensors changed in the steady state, all bits compared"
    assert seen(measured, Promise.training) == [(words, 1.0)]  # and nothing of gradients, which are inside
    assert seen(measured, Promise.precision) == [("forward matrix products of one step: 100 % in float32", None)]
    assert (reason, measured.defects, measured.warnings) == (None, [], [])


class Idle(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        pass


class WithoutBiases(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        if len(variable.shape) > 1:
            super().update_step(gradient, variable, learning_rate)


class Stopping(keras.optimizers.SGD):
    """Trains in the first steps alone."""

    def update_step(self, gradient, variable, learning_rate):
        trains = keras.ops.cast(self.iterations < STEPS["warmup"] + 1, gradient.dtype)
        super().update_step(gradient * trains, variable, learning_rate)


@pytest.mark.parametrize(
    ("optimizer", "how", "why"),
    [
        (Idle, STEPS, "nothing was trained: no trainable weight changed"),
        (Idle, IN_EPOCHS, "nothing was trained: no trainable weight changed"),
        (Stopping, STEPS, "training stopped while it was measured"),
    ],
)
def test_an_optimiser_that_does_not_train_makes_the_cell_invalid(digits, monkeypatch, optimizer, how, why):
    monkeypatch.setattr(networks, "optimizer_of", lambda model: optimizer(model.learning_rate))
    assert judged(digits, **how)[0].startswith(why)


@pytest.mark.parametrize("precision", [Precision.fp32, Precision.fp16_mixed])  # whose optimiser is wrapped
def test_a_learning_rate_of_zero_makes_the_cell_invalid(digits, precision):
    reason, _ = judged(digits, model=replace(SGD, learning_rate=0.0), precision=precision, **STEPS)
    assert reason.endswith("(the learning rate is 0)")


def test_weights_that_stay_as_they_are_are_named(digits, monkeypatch):
    monkeypatch.setattr(networks, "optimizer_of", lambda model: WithoutBiases(model.learning_rate))
    reason, measured = judged(digits, **STEPS)
    (warning,) = measured.warnings
    assert warning.startswith("weights that did not change while it trained: 3 of 6 tensors (")
    assert "bias" in warning
    assert reason is None


def patched(monkeypatch, *layers):
    """Has these layers and a last one be the network mlp."""
    monkeypatch.setitem(
        networks.NETWORKS,
        "mlp",
        lambda shape, num_classes: [keras.layers.Flatten(), *layers, keras.layers.Dense(num_classes)],
    )
    return ModelSpec(name="mlp", optimizer="sgd", learning_rate=0.05)


def in_bf16(width):
    return keras.layers.Dense(width, dtype=keras.DTypePolicy("mixed_bfloat16"))


def test_layers_that_are_not_trained_are_named(digits, monkeypatch):
    model = patched(monkeypatch, keras.layers.Dense(32, trainable=False, name="still"))
    _, measured = judged(digits, model=model, **STEPS)
    assert measured.warnings == ["not trained, since their trainable is false: still"]


@pytest.mark.parametrize("mode", Mode)
def test_a_small_layer_in_the_precision_that_was_asked_for_does_not_hide_the_others(digits, monkeypatch, mode):
    model = patched(monkeypatch, keras.layers.Dense(1), in_bf16(512), in_bf16(512))
    assert judged(digits, model=model, mode=mode)[0].startswith("asked for precision fp32, but bf16_mixed ran")


def test_a_share_in_another_format_is_told(digits, monkeypatch):
    reason, measured = judged(digits, model=patched(monkeypatch, keras.layers.Dense(32), in_bf16(300)))
    assert reason is None
    share = 32 * 300 / (784 * 32 + 32 * 300 + 300 * 10)
    words = f"{100 * share:.0f} % of the operations of forward matrix products ran in bfloat16, not in float32"
    assert words in measured.warnings
    ((observed, of_work),) = seen(measured, Promise.precision)
    assert f"{100 * share:.3g} % in bfloat16" in observed
    assert of_work == 1.0


class Kept(keras.layers.Layer):
    """Keeps the first output, in a variable."""

    def build(self, shape):
        self.ran = self.add_weight(shape=(), initializer="zeros", trainable=False)
        self.first = self.add_weight(shape=(32, shape[1]), initializer="zeros", trainable=False)

    def call(self, logits):
        self.first.assign(keras.ops.where(self.ran > 0, self.first, keras.ops.cast(logits, self.first.dtype)))
        self.ran.assign(1)
        return self.first + 0


class OneRow(keras.layers.Layer):
    """Changes the logits of one image, or of all others."""

    def __init__(self, row, value, *, others=False):
        super().__init__()
        self.row, self.value, self.others = row, value, others

    def call(self, logits):
        changes = (keras.ops.arange(keras.ops.shape(logits)[0])[:, None] == self.row) != self.others
        return keras.ops.where(changes, keras.ops.cast(self.value, logits.dtype), logits)


@pytest.mark.parametrize(
    ("make", "steps", "why"),
    [
        (Kept, 1, STALE),
        (lambda: OneRow(30, np.inf), 1, "the output is not finite"),
        (lambda: OneRow(0, 0.0, others=True), 1, ("the output differs by ", STALE)),  # if both rows are 0
        (lambda: keras.layers.Dense(3), 1, "the output is (32, 3), not (32, 10): see model.num_cl"),
        (lambda: keras.layers.Dense(3), 2, "the output is (64, 3), not (64, 10): see model.num_cl"),
    ],
)
def test_an_output_that_is_not_the_networks_makes_the_cell_invalid(digits, monkeypatch, make, steps, why):
    honest = networks.model_of
    monkeypatch.setattr(networks, "model_of", lambda *args: keras.Sequential([honest(*args), make()]))
    assert judged(digits, {"steps_per_execution": steps})[0].startswith(why)


@pytest.mark.parametrize("steps", [Protocol.fit, Protocol.window])
def test_a_loss_that_is_not_finite_makes_the_cell_invalid(digits, steps):
    reason, measured = judged(digits, mode=Mode.train, protocol=steps, epochs=2, model=replace(SGD, learning_rate=1e30))
    assert reason.startswith("the loss is not finite")
    assert {epoch.loss for epoch in measured.epochs} | {measured.loss} == {None}


@pytest.mark.parametrize("protocol", [Protocol.fit, Protocol.steps])
def test_a_loss_that_diverged_makes_the_cell_invalid(digits, protocol):
    linear = replace(SGD, args={"widths": [], "dropout": 0.0}, learning_rate=1e120)
    # A few steps: a loss that is so large may become 0 later.
    few = {"epochs": 2, "warmup": 1, "steps": 2, "precision": Precision.fp64}
    assert judged(digits, mode=Mode.train, model=linear, protocol=protocol, **few)[0].startswith(
        "the loss diverged to "
    )


def spoilt(monkeypatch, change):
    """Has `change` make of the function that predicts the one that is measured."""
    honest = on_tensorflow.TensorFlow.executed
    monkeypatch.setattr(
        on_tensorflow.TensorFlow, "executed", lambda backend, model, kind: change(honest(backend, model, kind))
    )


@pytest.mark.parametrize("pipeline", [Pipeline.array, Pipeline.device])
def test_results_that_are_kept_for_inputs_that_come_again_make_the_cell_invalid(digits, monkeypatch, pipeline):
    kept = {}

    def keeping(execute):
        def executed(batches):
            content = np.asarray(batches[0][0]).tobytes()
            if content not in kept:
                kept[content] = execute(batches)
            return kept[content]

        return executed

    spoilt(monkeypatch, keeping)
    data = DataSpec(name="mnist" if pipeline == Pipeline.array else "random", pipeline=pipeline)
    assert judged(digits, model=ModelSpec(name="mlp"), data=data)[0].endswith("results of earlier inputs are kept")


def test_an_output_of_other_images_in_a_timed_step_makes_the_cell_invalid(digits, monkeypatch):
    runs = []
    honest = engine._Run.run_steps
    monkeypatch.setattr(engine._Run, "run_steps", lambda run: runs.append(run) or honest(run))

    def turned_while_timed(execute):
        def executed(batches):
            output = execute(batches)
            return output[::-1] if runs[-1].resources is None else output  # they are noted once nothing more is timed

        return executed

    spoilt(monkeypatch, turned_while_timed)
    reason, _ = judged(digits, protocol=Protocol.steps, warmup=1, steps=10)
    assert reason.startswith("in a timed step the output was not that of ")


@pytest.mark.parametrize("pipeline", [Pipeline.array, Pipeline.host, Pipeline.device, Pipeline.fresh])
def test_honest_inference_is_seen_to_compute(digits, pipeline):
    name = "mnist" if pipeline == Pipeline.array else "random"
    _, measured = judged(digits, data=DataSpec(name=name, pipeline=pipeline))
    outputs = seen(measured, Promise.outputs)
    assert outputs[0][0].endswith("random rows of 32, of 1 of 1 tensors")
    assert len(outputs) == 1 + (pipeline != Pipeline.fresh)  # of which no input is ever fed twice
    assert seen(measured, Promise.precision) == [("forward matrix products of one step: 100 % in float32", 1.0)]
    assert (measured.defects, measured.warnings, measured.notes) == ([], [], [])


def test_a_network_whose_weights_are_others_is_the_reference_of_one_whose_output_is_constant():
    cell, images = keras_cell(model=SGD), np.zeros((2, 28, 28), np.uint8)
    same, again, other = (
        networks.reference(cell, [images], (28, 28), 10, other=other)[0] for other in (False, False, True)
    )
    assert np.array_equal(same, again)
    assert not np.allclose(same, other)
