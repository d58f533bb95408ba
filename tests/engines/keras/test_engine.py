"""The engine on TensorFlow: in this process, or through a real host if threads or devices must be set first."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from accelbench.data.arrays import Arrays, save_split
from accelbench.data.order import VALIDATION, parts_of
from accelbench.engines.keras import engine, networks
from accelbench.engines.keras.feed import feed_of
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import DataSpec, Device, Mode, ModelSpec, Pipeline, Precision, Protocol, Server, Span
from engines.cells import MLP, cell_to_goal, measured, ran
from engines.keras.cells import as_keras, elsewhere, give, keras_cell, on_two_devices, trained, with_weights_of
from engines.keras.twins import CASES, NUM, images, num_classes, pytorch_side, trained_cell
from fakes import assert_epochs_in_turn
from marks import slow

# Keras' Adam adds its epsilon before the correction of the bias, PyTorch's Adam after it.
NEAR = {"sgd": 1e-4, "adam": 2e-3}
FOUR = {"steps_per_execution": 4}


@pytest.mark.parametrize(
    ("optimizer", "keras"), [("sgd", FOUR), slow("sgd", {"jit_compile": True}), slow("adam", FOUR)]
)
def test_it_learns_as_its_twin_does(digits, twins, monkeypatch, optimizer, keras):
    twins = twins if optimizer == "sgd" else elsewhere(pytorch_side, digits, {}, optimizer)
    monkeypatch.setattr(networks, "network_of", with_weights_of(twins, optimizer))
    measurement = measured(engine, as_keras(trained_cell(optimizer), **keras), digits)
    assert len(measurement.warnings) == ("steps_per_execution" in keras)
    assert measurement.num_compiles == 2  # for training and for testing
    near = NEAR[optimizer]
    tested = [epoch.evaluation for epoch in measurement.epochs]
    assert [epoch.loss for epoch in measurement.epochs] == pytest.approx(twins[f"{optimizer}/losses"], rel=near)
    assert [evaluation.loss for evaluation in tested] == pytest.approx(twins[f"{optimizer}/tested"], rel=near)
    assert [evaluation.accuracy for evaluation in tested] == pytest.approx(twins[f"{optimizer}/accuracies"], abs=0.012)
    assert {epoch.num_samples for epoch in measurement.epochs} == {300}  # 9 batches of 32 and one of 12
    assert {evaluation.num_samples for evaluation in tested} == {90}
    assert_epochs_in_turn(measurement)


# Each kind of training: with a scaled loss, and with weights that are not float32.
PRECISIONS = [(Precision.fp16_mixed, Mode.train), (Precision.bf16, Mode.train), (Precision.fp32, Mode.infer)]
PRECISIONS += [(Precision.bf16_mixed, Mode.infer), slow(Precision.fp64, Mode.infer)]


@pytest.mark.parametrize(("precision", "mode"), PRECISIONS)
def test_the_precision_that_was_asked_for_runs_and_fp16s_loss_is_scaled(digits, monkeypatch, precision, mode):
    scaled, kind = [], keras.optimizers.LossScaleOptimizer
    honest = kind.scale_loss
    monkeypatch.setattr(kind, "scale_loss", lambda optimizer, loss: scaled.append(1) or honest(optimizer, loss))
    measurement = measured(engine, keras_cell(model=MLP, precision=precision, mode=mode), digits)
    assert measurement.warnings == []
    assert bool(scaled) == (mode == Mode.train and precision == Precision.fp16_mixed)
    assert measurement.output_error is None if mode == Mode.train else measurement.output_error < 0.05


@pytest.mark.parametrize(
    ("name", "args", "mode"), [("cnn", {"channels": 8}, Mode.train), slow("lstm", {"units": 16}, Mode.infer)]
)
def test_every_network_trains_and_infers(digits, name, args, mode):
    measurement = measured(engine, keras_cell(mode=mode, model=ModelSpec(name=name, args=args)), digits)
    assert all(block.num_samples == 32 * block.num_steps for block in measurement.blocks)
    assert len(measurement.latency_s) == len(measurement.launch_s) > 0
    # Training fetches inside.
    assert len(measurement.data_s) == (0 if mode == Mode.train else len(measurement.latency_s))
    assert measurement.copy_in_s == measurement.copy_out_s == []
    assert (measurement.num_compiles, measurement.warnings) == (1, [])
    assert (measurement.loss is None) == (mode == Mode.infer)
    assert min(measurement.work.flops, measurement.compile_s, measurement.peak_host_bytes) > 0


@pytest.mark.parametrize(
    ("pipeline", "num_different"), [(Pipeline.host, 8), slow(Pipeline.device, 1), (Pipeline.fresh, 20)]
)
def test_random_images_are_as_the_model_says_and_repeat_or_are_drawn_again(pipeline, num_different, tmp_path):
    model = ModelSpec(name="mlp", input_shape=(2, 3), num_classes=5)
    cell = keras_cell(mode=Mode.train, model=model, data=DataSpec(name="random", pipeline=pipeline), batch_size=4)
    measured(engine, cell, tmp_path)
    first, second = (list(itertools.islice(feed_of(cell, "train", tmp_path), 20)) for _ in range(2))
    for one, other in zip(first, second, strict=True):  # only the seed decides
        assert all(map(np.array_equal, one, other))
    assert len({images.tobytes() for images, _ in first}) == num_different
    assert {(images.shape, labels.shape) for images, labels in first} == {((4, 2, 3), (4,))}


def test_every_step_is_waited_for(digits, monkeypatch):
    # On the CPU, TensorFlow's work is finished when it returns. On a GPU, this function waits.
    waits = []
    honest = tf.test.experimental.sync_devices
    monkeypatch.setattr(tf.test.experimental, "sync_devices", lambda: waits.append(1) or honest())
    engine.run(keras_cell(model=MLP, protocol=Protocol.steps, warmup=3, steps=12), digits)
    assert len(waits) >= 3 + 12


def test_it_serves_requests(digits):
    server = Server(rate=200.0, duration_s=0.5, latency_ms=60_000.0)
    cell = keras_cell({"jit_compile": True}, protocol=Protocol.server, server=server, batch_size=4, model=MLP)
    measurement = measured(engine, cell, digits)
    serving = measurement.serving
    assert measurement.warnings == []  # it compiled before the first request
    assert (serving.num_requests, serving.num_errors, serving.sizes) == (100, 0, [1, 2, 4])
    assert sum(int(size) * num for size, num in serving.batches.items()) == 100


def test_a_forked_cell_has_the_threads_that_it_was_given(digits, hosts):
    assert ran(hosts, keras_cell(threads=1, model=MLP), digits).threads == 1


def test_it_trains_up_to_the_evaluation_after_the_hit_on_other_samples(digits):
    cell = as_keras(cell_to_goal(target={"every": 0.5}, epochs=8))
    measurement = measured(engine, cell, digits)
    training = measurement.target
    values = [evaluation.value for evaluation in training.evaluations]
    assert [value >= 0.9 for value in values[:-1]] == [False] * (len(values) - 2) + [True]
    assert (training.hit, training.num_validation) == (len(values) - 2, 30)
    assert training.stayed == (values[-1] >= 0.9)
    assert training.evaluations[-1].num_steps == round(len(values) * 0.5 * 9)
    assert training.tested == measurement.evaluation.accuracy >= 0.8
    assert 0 < training.compile_s <= sum(span.seconds for span in training.log if span.span == Span.train)
    train, held_out = feed_of(cell, "train", digits), feed_of(cell, VALIDATION, digits)
    chosen = [np.concatenate(list(train.order)), parts_of(300, 0.1)[1]]
    assert sorted(np.concatenate(chosen)) == list(range(300))
    assert np.array_equal(next(iter(held_out))[0], train.arrays[0][chosen[1]])


# Networks, and their twins of the Lightning engine, whose results another process has written.


@pytest.mark.parametrize("case", CASES)
def test_a_network_is_its_twin(twins, case):
    networks.set_policy(Precision.fp32)
    name, args, shape = CASES[case]
    spec = ModelSpec(name=name, args=args)
    network = networks.build(spec, shape, num_classes(name))
    give(network, twins, case)
    model, pixels, output = networks.model_of(network, "uint8"), images(shape), twins[f"{case}/output"]
    np.testing.assert_allclose(model(pixels, training=False), output, atol=1e-4)
    model.compile(loss=networks.loss_of(spec, network, "uint8"), metrics=networks.metrics_of(spec, network))
    labels = (np.arange(NUM) % num_classes(name)).astype(np.int32)
    results = model.evaluate(pixels, pixels if name == "autoencoder" else labels, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(float(twins[f"{case}/loss"]), rel=1e-4)
    if name != "autoencoder":
        answers = output[:, 0] > 0 if output.shape[1] == 1 else output.argmax(1)
        assert results["accuracy"] == pytest.approx((answers == labels).mean())
    assert network.count_params() == twins[f"{case}/params"]
    for train in (False, True):
        assert networks.count(network, NUM, train=train).flops == twins[f"{case}/flops{int(train)}"]


# Two virtual CPUs, and missing devices.


@pytest.mark.parametrize(("split", "num", "kept"), [("train", 321, 320), ("test", 97, 97)])
def test_a_last_batch_that_two_devices_do_not_share_evenly_is_left_out_of_training(tmp_path, split, num, kept):
    """Keras averages the gradients of replicas without weights, but its metrics count single samples."""
    save_split(tmp_path, split, Arrays(np.zeros((num, 8, 8), np.uint8), np.zeros(num, np.uint8)))
    part = trained(devices=2, data=DataSpec(name="mnist", train_images=96))
    nums = [feed_of(cell, split, tmp_path).num_samples for cell in (trained(devices=2), part)]
    assert nums == [kept, 96 if split == "train" else kept]


@pytest.mark.slow
def test_two_devices_learn_what_one_does_and_their_replicas_are_equal(digits):
    reason, measurement, weights, devices = elsewhere(on_two_devices, digits)
    cell = trained()
    run = engine.Run(cell, digits, engine.Backend(cell))
    alone = run.measure()
    assert (reason, measurement.num_devices) == (None, 2)
    assert [device[-5:] for device in devices] == ["CPU:0", "CPU:1"]
    for (first, second), mine in zip(weights, run.model.get_weights(), strict=True):
        assert np.array_equal(first, second)
        np.testing.assert_allclose(first, mine, atol=1e-4)
    for both, alike in zip(measurement.epochs, alone.epochs, strict=True):
        losses = [both.loss, both.evaluation.loss]
        assert losses == pytest.approx([alike.loss, alike.evaluation.loss], rel=1e-4)
        assert (both.num_samples, both.evaluation.accuracy) == (300, alike.evaluation.accuracy)
    assert measurement.num_compiles == alone.num_compiles == 2  # for training and for testing


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": Device.gpu}, "device=gpu: TensorFlow finds 0 of 1"),
        ({"device": Device.tpu}, "engine.tpu=local: TensorFlow reaches no TPU"),
    ],
)
def test_a_device_that_tensorflow_has_not_is_skipped(changes, words):
    with pytest.raises(UnsupportedError, match=words):
        engine.strategy_for(keras_cell(**changes))
