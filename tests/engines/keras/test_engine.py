"""The engine on TensorFlow: in this process, and through a real host where threads or devices must be fixed first."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from accelbench.devices.cpu import usable_cores
from accelbench.engines.keras import engine, networks, on_tensorflow
from accelbench.engines.keras.backends import backend_for
from accelbench.engines.keras.feed import feed_of
from accelbench.judging.asked import judge
from accelbench.measuring.clock import NUM_INFER_EPOCHS
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Mode, Pipeline, Precision, Protocol, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from engines.keras.cells import SGD, keras_cell, twin_of, with_weights_of
from fakes import assert_epochs_in_turn

# Keras' Adam adds its epsilon before it corrects the bias, PyTorch's after.
NEAR = {"sgd": 1e-4, "adam": 2e-3}
FIT = {"protocol": Protocol.fit, "model": SGD, "epochs": 2}


@pytest.mark.parametrize("keras", [{}, {"steps_per_execution": 4}, {"jit_compile": True}], ids=["", "4 steps", "jit"])
@pytest.mark.parametrize("optimizer", ["sgd", pytest.param("adam", marks=pytest.mark.slow)])
def test_it_learns_as_its_twin_does(digits, twins, monkeypatch, optimizer, keras):
    monkeypatch.setattr(networks, "network_of", with_weights_of(twins, optimizer))
    cell = twin_of(optimizer, keras)
    measured = engine.run(cell, digits)
    assert judge(cell, measured) is None
    near = NEAR[optimizer]
    assert [epoch.loss for epoch in measured.epochs] == pytest.approx(twins[f"{optimizer}/losses"].tolist(), rel=near)
    tested = [epoch.evaluation for epoch in measured.epochs]
    assert [each.loss for each in tested] == pytest.approx(twins[f"{optimizer}/tested"].tolist(), rel=near)
    assert [each.accuracy for each in tested] == pytest.approx(twins[f"{optimizer}/accuracies"].tolist(), abs=0.012)
    assert {epoch.num_samples for epoch in measured.epochs} == {300}  # 9 batches of 32 and one of 12
    assert {each.num_samples for each in tested} == {90}
    assert {epoch.data_s for epoch in measured.epochs} == {None}  # batches are fetched inside
    assert_epochs_in_turn(measured)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("precision", [p for p in NOT_QUANTIZED if p != Precision.tf32])
def test_the_precision_that_was_asked_for_runs(digits, precision, mode):
    cell = keras_cell(model=SGD, precision=precision, mode=mode)
    measured = engine.run(cell, digits)
    assert judge(cell, measured) is None
    assert measured.warnings == []
    if mode == Mode.infer and precision != Precision.fp32:
        assert 1e-9 < measured.output_error < 0.05
    else:
        assert measured.output_error is None


def test_fp16s_loss_is_scaled(digits, monkeypatch):
    seen = []
    kind = keras.optimizers.LossScaleOptimizer
    honest = kind.scale_loss
    monkeypatch.setattr(kind, "scale_loss", lambda optimizer, loss: seen.append(1) or honest(optimizer, loss))
    engine.run(keras_cell(model=SGD, precision=Precision.fp16_mixed, mode=Mode.train), digits)
    assert seen


@pytest.mark.parametrize("name", ["cnn", "rnn", "lstm", "autoencoder"])
@pytest.mark.parametrize("mode", Mode)
def test_every_network_trains_and_infers(digits, name, mode):
    small = {"cnn": {"channels": 8}, "rnn": {"units": 16}, "lstm": {"units": 16}, "autoencoder": {}}[name]
    cell = keras_cell(mode=mode, model=ModelSpec(name=name, args=small))
    measured = engine.run(cell, digits)
    assert judge(cell, measured) is None
    assert all(block.num_samples == 32 * block.num_steps for block in measured.blocks)
    assert len(measured.latency_s) == len(measured.launch_s) > 0
    assert len(measured.data_s) == (0 if mode == Mode.train else len(measured.latency_s))  # training, it fetches inside
    assert measured.copy_in_s == measured.copy_out_s == []
    assert measured.work.flops > 0
    assert (measured.num_compiles, measured.warnings) == (1, [])
    assert measured.compile_s > 0
    assert (measured.loss is None) == (mode == Mode.infer)
    assert measured.peak_host_bytes > 0


@pytest.mark.parametrize("mode", Mode)
def test_one_execution_runs_several_steps(digits, mode):
    measured = engine.run(keras_cell({"steps_per_execution": 3}, mode=mode, model=SGD), digits)
    assert all(block.num_samples == 3 * 32 * block.num_steps for block in measured.blocks)
    assert measured.warnings == ["each step, and its latency, is an execution of 3 batches"]
    assert bool(measured.data_s) == (mode == Mode.infer)  # training, TensorFlow fetches them inside
    assert measured.num_compiles == 1


def test_a_data_set_trains_as_fit_has_it(digits):
    """Batches come from tf.data in accelbench's order; the callbacks of `fit` run, and a wait finishes them."""
    cell = keras_cell(mode=Mode.train, model=SGD)
    backend, feed = backend_for(cell), feed_of(cell, "train", digits)
    fetched = next(backend.executions(feed, labelled=True))
    expected = itertools.islice(feed_of(cell, "train", digits), 20)
    for (images, labels), (its_images, its_labels) in zip(fetched, expected, strict=False):
        assert np.array_equal(images, its_images)
        assert np.array_equal(labels, its_labels)
    run = engine._Run(cell, digits, backend)
    backend.function(run.model, "train")(fetched)
    backend.wait()
    assert run.model.history is backend.callbacks._history
    assert not backend.callbacks._futures


def test_epochs_of_inference_take_the_whole_test_set(digits):
    measured = engine.run(keras_cell(mode=Mode.infer, **FIT), digits)
    assert [epoch.num_samples for epoch in measured.epochs] == [90] * NUM_INFER_EPOCHS
    assert measured.evaluation is None
    assert_epochs_in_turn(measured)
    assert measured.num_compiles == 2  # the last batch is short
    assert measured.first_step_s > measured.epochs[-1].seconds / 3  # it compiles
    assert all(0 < epoch.data_s < epoch.seconds for epoch in measured.epochs)


# Of 20 batches, how many are different ones.
DIFFERENT = {Pipeline.host: 8, Pipeline.device: 1, Pipeline.fresh: 20}


@pytest.mark.parametrize("pipeline", DIFFERENT)
def test_random_images(digits, pipeline):
    model = ModelSpec(name="pets_cnn", input_shape=(3, 24, 32), num_classes=2)
    data = DataSpec(name="random", pipeline=pipeline)
    for mode in Mode:
        cell = keras_cell(mode=mode, model=model, data=data, precision=Precision.bf16_mixed, batch_size=4)
        measured = engine.run(cell, digits)
        assert judge(cell, measured) is None
        assert measured.num_params > 0


@pytest.mark.parametrize("pipeline", DIFFERENT)
def test_random_images_repeat_or_are_drawn_again_and_depend_on_the_seed_alone(pipeline, tmp_path):
    model = ModelSpec(name="mlp", input_shape=(2, 3), num_classes=5)
    cell = keras_cell(mode=Mode.train, model=model, data=DataSpec(name="random", pipeline=pipeline))
    first, second = (list(itertools.islice(feed_of(cell, "train", tmp_path), 20)) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert all(map(np.array_equal, one, other))
    assert len({images.tobytes() for images, _ in first}) == DIFFERENT[pipeline]
    assert {(images.shape, labels.shape) for images, labels in first} == {((32, 2, 3), (32,))}


def test_a_substituted_precision_is_seen(digits, monkeypatch):
    monkeypatch.setitem(networks.POLICIES, Precision.fp16_mixed, "mixed_bfloat16")
    cell = keras_cell(model=SGD, precision=Precision.fp16_mixed)
    assert judge(cell, engine.run(cell, digits)) == "asked for precision fp16_mixed, but bf16_mixed ran"


def test_a_substituted_device_is_seen(digits, monkeypatch):
    # As OneDeviceStrategy("/TPU:0") does it without a TPU, in silence.
    monkeypatch.setattr(on_tensorflow, "strategy_for", lambda cell: tf.distribute.OneDeviceStrategy("/GPU:0"))
    monkeypatch.setattr(on_tensorflow.TensorFlow, "device_name", lambda backend: "a GPU")
    cell = keras_cell(model=SGD, device=Device.gpu)
    assert judge(cell, engine.run(cell, digits)) == "asked for device gpu, but cpu ran"


def test_every_step_is_waited_for(digits, monkeypatch):
    # TensorFlow on the CPU has always done its work when it returns; on a GPU this is what waits.
    waits = []
    honest = tf.test.experimental.sync_devices
    monkeypatch.setattr(tf.test.experimental, "sync_devices", lambda: waits.append(1) or honest())
    engine.run(keras_cell(model=SGD, protocol=Protocol.steps, warmup=3, steps=12), digits)
    assert len(waits) >= 3 + 12


def test_the_threads_are_all_cores_by_default(digits, hosts):
    assert engine.run(keras_cell(model=SGD), digits).threads == usable_cores()
    assert hosts.run(keras_cell(model=SGD, threads=1), digits).measurement.threads == 1


def test_cells_are_forked_again_and_again_and_learn_the_same(digits, hosts):
    cell = keras_cell(mode=Mode.train, **FIT)
    expected = [epoch.loss for epoch in engine.run(cell, digits).epochs]
    for _ in range(3):
        outcome = hosts.run(cell, digits)
        assert outcome.status == Status.ok, outcome.error
        assert [epoch.loss for epoch in outcome.measurement.epochs] == pytest.approx(expected, rel=1e-5)


def test_the_same_seed_draws_the_same_weights_in_every_precision():
    drawn = {
        precision: networks.network_of(keras_cell(model=SGD, precision=precision), (28, 28), 10).get_weights()
        for precision in (Precision.fp32, Precision.bf16_mixed, Precision.fp64, Precision.bf16)
    }
    for precision, tensors in drawn.items():
        for expected, tensor in zip(drawn[Precision.fp32], tensors, strict=True):
            rounded = 0.004 if precision == Precision.bf16 else 0
            np.testing.assert_allclose(tensor.astype(np.float64), expected, rtol=rounded)
