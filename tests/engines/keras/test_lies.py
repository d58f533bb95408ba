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
from engines.keras.cells import keras_cell

SGD = ModelSpec(name="mlp", args={"widths": [32, 32], "dropout": 0.0}, optimizer="sgd", learning_rate=0.05)
NUM_TENSORS = 6
# A few steps of training that is judged: the template looks after one of the blocks of two.
STEPS = {"mode": Mode.train, "protocol": Protocol.steps, "warmup": 2, "steps": 20}
IN_EPOCHS = {"mode": Mode.train, "protocol": Protocol.fit, "epochs": 2}


def seen(measured, promise):
    """What was observed of a promise: its words and share."""
    return [(check.observed, check.share) for check in measured.checks if check.promise == promise]


@pytest.mark.parametrize("how", [STEPS, IN_EPOCHS], ids=["steps", "epochs"])
def test_honest_training_is_seen_to_train(digits, how):
    measured = engine.run(keras_cell(model=SGD, **how), digits)
    (of_training,), (of_precision,) = seen(measured, Promise.training), seen(measured, Promise.precision)
    words = f"{NUM_TENSORS} of {NUM_TENSORS} trainable tensors changed in the steady state, all bits compared"
    assert of_training == (words, 1.0)  # and nothing of gradients, which the compiled function has inside
    assert of_precision == ("forward matrix products of one step: 100 % in float32", None)
    assert (measured.defects, measured.warnings) == ([], [])


class Idle(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        pass


@pytest.mark.parametrize("how", [STEPS, IN_EPOCHS], ids=["steps", "epochs"])
def test_an_optimiser_that_does_nothing_makes_the_cell_invalid(digits, monkeypatch, how):
    monkeypatch.setattr(networks, "optimizer_of", lambda model: Idle(model.learning_rate))
    cell = keras_cell(model=SGD, **how)
    assert judge(cell, engine.run(cell, digits)).startswith("nothing was trained: no trainable weight changed")


@pytest.mark.parametrize("precision", [Precision.fp32, Precision.fp16_mixed])  # whose optimiser is wrapped
def test_a_learning_rate_of_zero_makes_the_cell_invalid(digits, precision):
    cell = keras_cell(model=replace(SGD, learning_rate=0.0), precision=precision, **STEPS)
    assert judge(cell, engine.run(cell, digits)).endswith("(the learning rate is 0)")


class WithoutBiases(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        if len(variable.shape) > 1:
            super().update_step(gradient, variable, learning_rate)


def test_weights_that_stay_as_they_are_are_named(digits, monkeypatch):
    monkeypatch.setattr(networks, "optimizer_of", lambda model: WithoutBiases(model.learning_rate))
    cell = keras_cell(model=SGD, **STEPS)
    measured = engine.run(cell, digits)
    assert judge(cell, measured) is None
    (warning,) = measured.warnings
    assert warning.startswith("weights that did not change while it trained: 3 of 6 tensors (")
    assert "bias" in warning


class Stopping(keras.optimizers.SGD):
    """Trains in the first steps alone."""

    def update_step(self, gradient, variable, learning_rate):
        trains = keras.ops.cast(self.iterations < STEPS["warmup"] + 1, gradient.dtype)
        super().update_step(gradient * trains, variable, learning_rate)


def test_training_that_stops_makes_the_cell_invalid(digits, monkeypatch):
    monkeypatch.setattr(networks, "optimizer_of", lambda model: Stopping(model.learning_rate))
    cell = keras_cell(model=SGD, **STEPS)
    assert judge(cell, engine.run(cell, digits)).startswith("training stopped while it was measured")


def patched(monkeypatch, make):
    """Has `make` build the layers of the network mlp."""
    monkeypatch.setitem(networks.NETWORKS, "mlp", lambda shape, num_classes: make(num_classes))
    return ModelSpec(name="mlp", optimizer="sgd", learning_rate=0.05)


def test_layers_that_are_not_trained_are_named(digits, monkeypatch):
    def make(num_classes):
        dense = keras.layers.Dense
        return [keras.layers.Flatten(), dense(32, trainable=False, name="still"), dense(num_classes)]

    measured = engine.run(keras_cell(model=patched(monkeypatch, make), **STEPS), digits)
    assert measured.warnings == ["not trained, since their trainable is false: still"]


@pytest.mark.parametrize("mode", Mode)
def test_a_small_layer_in_the_precision_that_was_asked_for_does_not_hide_the_others(digits, monkeypatch, mode):
    def make(num_classes):
        of_16_bits = keras.DTypePolicy("mixed_bfloat16")
        flat, dense = keras.layers.Flatten(), keras.layers.Dense
        return [flat, dense(1), dense(512, dtype=of_16_bits), dense(512, dtype=of_16_bits), dense(num_classes)]

    cell = keras_cell(model=patched(monkeypatch, make), mode=mode)
    assert judge(cell, engine.run(cell, digits)).startswith("asked for precision fp32, but bf16_mixed ran")


def test_a_share_in_another_format_is_told(digits, monkeypatch):
    def make(num_classes):
        flat, dense = keras.layers.Flatten(), keras.layers.Dense
        return [flat, dense(32), dense(300, dtype=keras.DTypePolicy("mixed_bfloat16")), dense(num_classes)]

    cell = keras_cell(model=patched(monkeypatch, make))
    measured = engine.run(cell, digits)
    assert judge(cell, measured) is None
    share = 32 * 300 / (784 * 32 + 32 * 300 + 300 * 10)
    words = f"{100 * share:.0f} % of the operations of forward matrix products ran in bfloat16, not in float32"
    assert words in measured.warnings
    ((observed, of_work),) = seen(measured, Promise.precision)
    assert f"{100 * share:.3g} % in bfloat16" in observed
    assert of_work == 1.0


class FirstRow(keras.layers.Layer):
    """Computes one image of a batch."""

    def call(self, logits):
        return keras.ops.where(keras.ops.arange(keras.ops.shape(logits)[0])[:, None] == 0, logits, 0.0)


def test_an_output_of_one_image_alone_makes_the_cell_invalid(digits, monkeypatch):
    honest = networks.model_of
    monkeypatch.setattr(networks, "model_of", lambda *args: keras.Sequential([honest(*args), FirstRow()]))
    cell = keras_cell(model=SGD)
    assert judge(cell, engine.run(cell, digits)).startswith(("the output differs by ", STALE))  # if both rows are 0


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
    cell = keras_cell(model=ModelSpec(name="mlp"), data=data)
    measured = engine.run(cell, digits)
    assert judge(cell, measured).endswith("results of earlier inputs are kept")


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
    cell = keras_cell(model=SGD, protocol=Protocol.steps, warmup=1, steps=10)
    assert judge(cell, engine.run(cell, digits)).startswith("in a timed step the output was not that of ")


@pytest.mark.parametrize("pipeline", [Pipeline.array, Pipeline.host, Pipeline.device, Pipeline.fresh])
def test_honest_inference_is_seen_to_compute(digits, pipeline):
    name = "mnist" if pipeline == Pipeline.array else "random"
    measured = engine.run(keras_cell(model=SGD, data=DataSpec(name=name, pipeline=pipeline)), digits)
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
