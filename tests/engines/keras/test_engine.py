"""The engine on TensorFlow: in this process, or through a real host if threads or devices must be set first."""

import itertools
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from accelbench.data.order import VALIDATION, parts_of
from accelbench.engines.keras import engine, networks
from accelbench.engines.keras.feed import feed_of
from accelbench.judging.verdict import judge
from accelbench.schema.cell import DataSpec, ModelSpec, Server, Target
from accelbench.schema.vocab import Mode, Pipeline, Precision, Protocol, Span, Status
from engines.keras.cells import SGD, elsewhere, keras_cell, twin_of, with_weights_of
from engines.keras.twins import pytorch_side
from fakes import assert_epochs_in_turn
from marks import slow

# Keras' Adam adds its epsilon before the correction of the bias, PyTorch's Adam after it.
NEAR = {"sgd": 1e-4, "adam": 2e-3}


@pytest.mark.parametrize(
    ("optimizer", "keras"),
    [
        ("sgd", {"steps_per_execution": 4}),
        *(slow("sgd", {"jit_compile": True}), slow("adam", {"steps_per_execution": 4})),
    ],
)
def test_it_learns_as_its_twin_does(digits, twins, monkeypatch, optimizer, keras):
    twins = twins if optimizer == "sgd" else elsewhere(pytorch_side, digits, {}, optimizer)
    monkeypatch.setattr(networks, "network_of", with_weights_of(twins, optimizer))
    cell = twin_of(optimizer, keras)
    measured = engine.run(cell, digits)
    assert judge(cell, measured) is None
    num = keras.get("steps_per_execution", 1)
    assert len(measured.warnings) == (num > 1)
    assert measured.num_compiles == 2  # for training and for testing
    near = NEAR[optimizer]
    tested = [epoch.evaluation for epoch in measured.epochs]
    assert [epoch.loss for epoch in measured.epochs] == pytest.approx(twins[f"{optimizer}/losses"], rel=near)
    assert [evaluation.loss for evaluation in tested] == pytest.approx(twins[f"{optimizer}/tested"], rel=near)
    assert [evaluation.accuracy for evaluation in tested] == pytest.approx(twins[f"{optimizer}/accuracies"], abs=0.012)
    assert {epoch.num_samples for epoch in measured.epochs} == {300}  # 9 batches of 32 and one of 12
    assert {evaluation.num_samples for evaluation in tested} == {90}
    assert_epochs_in_turn(measured)


# Each kind of training: with a scaled loss, and with weights that are not float32.
PRECISIONS = [(Precision.fp16_mixed, Mode.train), (Precision.bf16, Mode.train), (Precision.fp32, Mode.infer)]
PRECISIONS += [(Precision.bf16_mixed, Mode.infer), slow(Precision.fp64, Mode.train)]


@pytest.mark.parametrize(("precision", "mode"), PRECISIONS)
def test_the_precision_that_was_asked_for_runs_and_fp16s_loss_is_scaled(digits, monkeypatch, precision, mode):
    scaled, kind = [], keras.optimizers.LossScaleOptimizer
    honest = kind.scale_loss
    monkeypatch.setattr(kind, "scale_loss", lambda optimizer, loss: scaled.append(1) or honest(optimizer, loss))
    cell = keras_cell(model=SGD, precision=precision, mode=mode)
    measured = engine.run(cell, digits)
    assert (judge(cell, measured), measured.warnings) == (None, [])
    assert bool(scaled) == (mode == Mode.train and precision == Precision.fp16_mixed)
    assert measured.output_error is None if mode == Mode.train else measured.output_error < 0.05


NETWORKS = [("cnn", {"channels": 8}, Mode.train), slow("rnn", {"units": 16}, Mode.train)]
NETWORKS += [slow("lstm", {"units": 16}, Mode.infer), slow("autoencoder", {}, Mode.train)]


@pytest.mark.parametrize(("name", "args", "mode"), NETWORKS)
def test_every_network_trains_and_infers(digits, name, args, mode):
    cell = keras_cell(mode=mode, model=ModelSpec(name=name, args=args))
    measured = engine.run(cell, digits)
    assert judge(cell, measured) is None
    assert all(block.num_samples == 32 * block.num_steps for block in measured.blocks)
    assert len(measured.latency_s) == len(measured.launch_s) > 0
    assert len(measured.data_s) == (0 if mode == Mode.train else len(measured.latency_s))  # training fetches inside
    assert measured.copy_in_s == measured.copy_out_s == []
    assert (measured.num_compiles, measured.warnings) == (1, [])
    assert (measured.loss is None) == (mode == Mode.infer)
    assert min(measured.work.flops, measured.compile_s, measured.peak_host_bytes) > 0


# How many of 20 batches are different.
DIFFERENT = {Pipeline.host: 8, Pipeline.device: 1, Pipeline.fresh: 20}


@pytest.mark.parametrize("pipeline", [Pipeline.host, slow(Pipeline.device), Pipeline.fresh])
def test_random_images_are_as_the_model_says_and_repeat_or_are_drawn_again(pipeline, tmp_path):
    model = ModelSpec(name="pets_cnn", input_shape=(3, 24, 32), num_classes=2)
    mode = Mode.train if pipeline == Pipeline.host else Mode.infer
    data = DataSpec(name="random", pipeline=pipeline)
    cell = keras_cell(mode=mode, model=model, data=data, precision=Precision.bf16_mixed, batch_size=4)
    assert judge(cell, engine.run(cell, tmp_path)) is None
    cell = replace(cell, mode=Mode.train, model=ModelSpec(name="mlp", input_shape=(2, 3), num_classes=5))
    first, second = (list(itertools.islice(feed_of(cell, "train", tmp_path), 20)) for _ in range(2))
    for one, other in zip(first, second, strict=True):  # only the seed decides
        assert all(map(np.array_equal, one, other))
    assert len({images.tobytes() for images, _ in first}) == DIFFERENT[pipeline]
    assert {(images.shape, labels.shape) for images, labels in first} == {((4, 2, 3), (4,))}


def test_every_step_is_waited_for(digits, monkeypatch):
    # On the CPU, TensorFlow's work is finished when it returns. On a GPU, this function waits.
    waits = []
    honest = tf.test.experimental.sync_devices
    monkeypatch.setattr(tf.test.experimental, "sync_devices", lambda: waits.append(1) or honest())
    engine.run(keras_cell(model=SGD, protocol=Protocol.steps, warmup=3, steps=12), digits)
    assert len(waits) >= 3 + 12


SERVES = {
    "protocol": Protocol.server,
    "server": Server(rate=200.0, duration_s=0.5, latency_ms=60_000.0),
    "batch_size": 4,
    "model": SGD,
}


def test_it_serves_requests(digits):
    cell = keras_cell({"jit_compile": True}, **SERVES)
    measured = engine.run(cell, digits)
    assert (judge(cell, measured), measured.warnings) == (None, [])  # it compiled before the first request
    serving = measured.serving
    assert (serving.num_requests, serving.num_errors) == (100, 0)
    assert serving.sizes == [1, 2, 4]
    assert sum(int(size) * num for size, num in serving.batches.items()) == 100


def test_a_forked_cell_has_the_threads_that_it_was_given(digits, hosts):
    outcome = hosts.run(keras_cell(threads=1, model=SGD), digits)
    assert (outcome.status, outcome.measurement.threads) == (Status.ok, 1), outcome.error


def test_the_same_seed_draws_the_same_weights_in_every_precision():
    drawn = {
        precision: networks.network_of(keras_cell(model=SGD, precision=precision), (28, 28), 10).get_weights()
        for precision in (Precision.fp32, Precision.bf16_mixed, Precision.fp64, Precision.bf16)
    }
    for precision, tensors in drawn.items():
        for expected, tensor in zip(drawn[Precision.fp32], tensors, strict=True):
            rounded = 0.004 if precision == Precision.bf16 else 0
            np.testing.assert_allclose(tensor.astype(np.float64), expected, rtol=rounded)


def cell_to_goal(**target):
    target = Target(accuracy=0.9, **target)
    return keras_cell(mode=Mode.train, protocol=Protocol.target, model=SGD, epochs=8, target=target)


def test_it_trains_up_to_the_evaluation_after_the_hit(digits):
    cell = cell_to_goal(every=0.5)
    measured = engine.run(cell, digits)
    training = measured.target
    assert judge(cell, measured) is None
    values = [evaluation.value for evaluation in training.evaluations]
    assert [value >= 0.9 for value in values[:-1]] == [False] * (len(values) - 2) + [True]
    assert (training.hit, training.num_validation) == (len(values) - 2, 30)
    assert training.stayed == (values[-1] >= 0.9)
    assert training.evaluations[-1].num_steps == round(len(values) * 0.5 * 9)
    assert training.tested == measured.evaluation.accuracy >= 0.8
    assert 0 < training.compile_s <= sum(span.seconds for span in training.log if span.span == Span.train)


def test_it_is_evaluated_on_what_it_does_not_train_on(digits):
    cell = cell_to_goal()
    train, held_out = feed_of(cell, "train", digits), feed_of(cell, VALIDATION, digits)
    chosen = [np.concatenate(list(train.order)), parts_of(300, 0.1)[1]]
    assert sorted(np.concatenate(chosen)) == list(range(300))
    assert np.array_equal(next(iter(held_out))[0], train.arrays[0][chosen[1]])
