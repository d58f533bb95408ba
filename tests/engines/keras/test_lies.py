"""Keras cells whose work is not what was asked for: a layer, an optimiser or a compiled function at fault."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.layers import Dense, Flatten, Layer

from accelbench.engines.keras import engine, networks, on_tensorflow
from accelbench.judging.asked import judge
from accelbench.measuring.output_check import STALE
from accelbench.schema.vocab import Device, Mode, Pipeline, Precision, Promise, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from engines.keras.cells import SGD, keras_cell
from marks import slow

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


@pytest.mark.parametrize("how", [STEPS, IN_EPOCHS])
def test_honest_training_is_seen_to_train(digits, how):
    reason, measured = judged(digits, **how)
    words = "6 of 6 trainable tensors changed in the steady state, all bits compared"
    assert seen(measured, Promise.training) == [(words, 1.0)]  # and nothing of gradients, which are inside
    assert seen(measured, Promise.precision) == [("forward matrix products of one step: 100 % in float32", None)]
    assert (reason, measured.defects, measured.warnings) == (None, [], [])


@pytest.mark.parametrize("pipeline", [Pipeline.array, slow(Pipeline.device), slow(Pipeline.fresh)])
def test_honest_inference_is_seen_to_compute(digits, pipeline):
    name = "mnist" if pipeline == Pipeline.array else "random"
    _, measured = judged(digits, data=DataSpec(name=name, pipeline=pipeline))
    outputs = seen(measured, Promise.outputs)
    assert outputs[0][0].endswith("random rows of 32, of 1 of 1 tensors")
    assert len(outputs) == 1 + (pipeline != Pipeline.fresh)  # of which no input is ever fed twice
    assert seen(measured, Promise.precision) == [("forward matrix products of one step: 100 % in float32", 1.0)]
    assert (measured.defects, measured.warnings, measured.notes) == ([], [], [])


class Partly(keras.optimizers.SGD):
    """Updates a variable only where `updates` says so, of the optimiser and the variable."""

    def __init__(self, model, updates):
        super().__init__(model.learning_rate)
        self.updates = updates

    def update_step(self, gradient, variable, learning_rate):
        trains = keras.ops.cast(self.updates(self, variable), gradient.dtype)
        super().update_step(gradient * trains, variable, learning_rate)


UNCHANGED = "weights that did not change while it trained: 3 of 6 tensors ("


@pytest.mark.parametrize(
    ("updates", "how", "why", "warning"),
    [
        slow(lambda optimizer, variable: False, IN_EPOCHS, "nothing was trained: no trainable weight changed", ""),
        (lambda optimizer, variable: optimizer.iterations < 3, STEPS, "training stopped while it was measured", ""),
        (lambda optimizer, variable: len(variable.shape) > 1, STEPS, "", UNCHANGED),
    ],
)
def test_an_optimiser_that_does_not_train_is_found_out(digits, monkeypatch, updates, how, why, warning):
    monkeypatch.setattr(networks, "optimizer_of", lambda model: Partly(model, updates))
    reason, measured = judged(digits, **how)
    assert reason.startswith(why) if why else reason is None
    assert not warning or [each.startswith(warning) and "bias" in each for each in measured.warnings] == [True]


@pytest.mark.parametrize("precision", [slow(Precision.fp32), Precision.fp16_mixed])  # whose optimiser is wrapped
def test_a_learning_rate_of_zero_makes_the_cell_invalid(digits, precision):
    reason, _ = judged(digits, model=replace(SGD, learning_rate=0.0), precision=precision, **STEPS)
    assert reason.endswith("(the learning rate is 0)")


def in_bf16(width):
    return Dense(width, dtype=keras.DTypePolicy("mixed_bfloat16"))


SHARE = 32 * 300 / (784 * 32 + 32 * 300 + 300 * 10)
PARTLY_BF16 = f"{100 * SHARE:.0f} % of the operations of forward matrix products ran in bfloat16, not in float32"
SUBSTITUTED = "asked for precision fp32, but bf16_mixed ran"


@pytest.mark.parametrize(
    ("layers", "how", "why", "warning", "observed"),
    [
        # A small layer in the precision that was asked for does not hide the others.
        (lambda: [Dense(1), in_bf16(512), in_bf16(512)], {"mode": Mode.train}, SUBSTITUTED, "", ""),
        (lambda: [Dense(32), in_bf16(300)], {}, "", PARTLY_BF16, f"{100 * SHARE:.3g} % in bfloat16"),
    ],
)
def test_layers_that_are_not_as_asked_for_are_told(digits, monkeypatch, layers, how, why, warning, observed):
    monkeypatch.setitem(networks.NETWORKS, "mlp", lambda _, num_classes: [Flatten(), *layers(), Dense(num_classes)])
    reason, measured = judged(digits, model=replace(SGD, args={}), **how)
    assert reason.startswith(why) if why else reason is None
    assert any(each.startswith(warning) for each in measured.warnings) or not warning
    assert observed in seen(measured, Promise.precision)[0][0]


def test_a_substituted_precision_or_device_is_seen(digits, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(networks.POLICIES, Precision.fp16_mixed, "mixed_bfloat16")
        reason, _ = judged(digits, precision=Precision.fp16_mixed)
    assert reason == "asked for precision fp16_mixed, but bf16_mixed ran"
    # As OneDeviceStrategy("/TPU:0") does it without a TPU, in silence.
    monkeypatch.setattr(on_tensorflow, "strategy_for", lambda cell: tf.distribute.OneDeviceStrategy("/GPU:0"))
    monkeypatch.setattr(on_tensorflow.TensorFlow, "device_name", lambda backend: "a GPU")
    assert judged(digits, device=Device.gpu)[0] == "asked for device gpu, but cpu ran"


class Kept(Layer):
    """Keeps the first output, in a variable."""

    def build(self, shape):
        self.ran = self.add_weight(shape=(), initializer="zeros", trainable=False)
        self.first = self.add_weight(shape=(32, shape[1]), initializer="zeros", trainable=False)

    def call(self, logits):
        self.first.assign(keras.ops.where(self.ran > 0, self.first, keras.ops.cast(logits, self.first.dtype)))
        self.ran.assign(1)
        return self.first + 0


class OneRow(Layer):
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
        (lambda: Dense(3), 1, "the output is (32, 3), not (32, 10): see model.num_cl"),
    ],
)
def test_an_output_that_is_not_the_networks_makes_the_cell_invalid(digits, monkeypatch, make, steps, why):
    honest = networks.model_of
    monkeypatch.setattr(networks, "model_of", lambda *args: keras.Sequential([honest(*args), make()]))
    assert judged(digits, {"steps_per_execution": steps})[0].startswith(why)


@pytest.mark.parametrize(
    ("how", "widths", "learning_rate", "why"),
    [
        (IN_EPOCHS, [32, 32], 1e30, "the loss is not finite"),
        # A few steps: a loss that is so large may become 0 later.
        slow({**STEPS, "warmup": 1, "steps": 2, "precision": Precision.fp64}, [], 1e120, "the loss diverged to "),
    ],
)
def test_a_loss_that_is_not_finite_or_diverged_makes_the_cell_invalid(digits, how, widths, learning_rate, why):
    model = replace(SGD, args={"widths": widths, "dropout": 0.0}, learning_rate=learning_rate)
    reason, measured = judged(digits, model=model, **how)
    assert reason.startswith(why)
    assert {epoch.loss for epoch in measured.epochs} | {measured.loss} == {None}


def spoilt(monkeypatch, change):
    """Has `change` make of the function that predicts, and a batch's images, what is measured."""
    honest = on_tensorflow.TensorFlow.executed

    def executed(backend, model, kind):
        execute = honest(backend, model, kind)
        return lambda batches: change(lambda: execute(batches), batches[0][0])

    monkeypatch.setattr(on_tensorflow.TensorFlow, "executed", executed)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", [Pipeline.array, Pipeline.device])
def test_results_that_are_kept_for_inputs_that_come_again_make_the_cell_invalid(digits, monkeypatch, pipeline):
    kept = {}

    def keeping(compute, images):
        content = np.asarray(images).tobytes()
        if content not in kept:
            kept[content] = compute()
        return kept[content]

    spoilt(monkeypatch, keeping)
    data = DataSpec(name="mnist" if pipeline == Pipeline.array else "random", pipeline=pipeline)
    assert judged(digits, model=ModelSpec(name="mlp"), data=data)[0].endswith("results of earlier inputs are kept")


def test_an_output_of_other_images_in_a_timed_step_makes_the_cell_invalid(digits, monkeypatch):
    runs, honest = [], engine._Run.run_steps
    monkeypatch.setattr(engine._Run, "run_steps", lambda run: runs.append(run) or honest(run))
    # They are noted once nothing more is timed.
    spoilt(monkeypatch, lambda compute, _: compute()[::-1] if runs[-1].resources is None else compute())
    reason, _ = judged(digits, protocol=Protocol.steps, warmup=1, steps=10)
    assert reason.startswith("in a timed step the output was not that of ")
