"""The engine on TensorFlow: in this process, or through a real host if threads or devices must be set first."""

import itertools
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from accelbench.engines.keras import engine, networks
from accelbench.engines.keras.feed import feed_of
from accelbench.judging.verdict import judge
from accelbench.schema.cell import DataSpec, ModelSpec, Server
from accelbench.schema.vocab import Mode, Pipeline, Precision, Protocol, Status
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


def test_adam_in_bf16_which_trains_nothing_is_a_doubt(digits):
    cell = keras_cell(model=replace(SGD, optimizer="adam"), precision=Precision.bf16, mode=Mode.train)
    measured = engine.run(cell, digits)
    assert judge(cell, measured) is None
    assert any("rounding to 16 bits" in warning for warning in measured.warnings)


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


def test_one_execution_runs_several_steps(digits):
    measured = engine.run(keras_cell({"steps_per_execution": 3}, mode=Mode.train, model=SGD), digits)
    assert all(block.num_samples == 3 * 32 * block.num_steps for block in measured.blocks)
    assert measured.warnings == ["engine.steps_per_execution=3: each latency is the time of 3 batches"]
    assert not measured.data_s  # in training, TensorFlow fetches batches inside the graph
    assert measured.num_compiles == 1


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
