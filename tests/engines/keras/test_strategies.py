"""Keras on JAX, on two virtual CPUs, and on a TPU: its classes with a resolver that pretends there is one."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.client.session import _DeviceAttributes
from tensorflow.python.tpu.tpu_system_metadata import TPUSystemMetadata

from accelbench.data.arrays import Arrays, save_split
from accelbench.engines.keras import engine, on_tensorflow
from accelbench.engines.keras.backends import backend_for
from accelbench.engines.keras.feed import feed_of
from accelbench.errors import UnsupportedError
from accelbench.schema.vocab import Device, Mode, Promise, Status
from engines.keras.cells import elsewhere, keras_cell, trained
from engines.keras.others import on_jax, on_two_devices


@pytest.fixture(scope="module")
def jax_side(digits, twins):
    return elsewhere(on_jax, digits, twins, KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")


def test_on_jax_a_step_is_waited_for_and_it_computes_and_learns_as_its_twin_does(jax_side, twins):
    assert jax_side["waited"]
    assert max(jax_side["error"].values()) < 1e-4
    reason, fit = jax_side["fit"]
    assert reason is None
    assert [epoch.loss for epoch in fit.epochs] == pytest.approx(twins["sgd/losses"], rel=1e-4)
    assert [epoch.evaluation.loss for epoch in fit.epochs] == pytest.approx(twins["sgd/tested"], rel=1e-4)
    # Training and testing, and each one's short last batch; Keras may trace training anew in the second epoch.
    assert fit.num_compiles in (4, 5)


@pytest.mark.parametrize("mode", Mode)
def test_on_jax_what_was_asked_for_runs_and_compiles_once_and_is_seen(jax_side, mode):
    reason, measured = jax_side[mode]
    assert (reason, measured.warnings, measured.num_compiles) == (None, [], 1)
    assert (measured.loss is None) == (mode == Mode.infer)
    seen = {check.promise: check.observed for check in measured.checks}
    if mode == Mode.train:
        assert seen[Promise.training].startswith("6 of 6 trainable tensors changed in the steady state")
    else:
        assert 1e-5 < measured.output_error < 0.05
        assert "100 % in bfloat16" in seen[Promise.precision]
        assert "never fed" in seen[Promise.outputs]  # of the outputs' two, the second one


def test_on_jax_a_learning_rate_of_zero_makes_the_cell_invalid(jax_side):
    assert jax_side["still"][0].endswith("(the learning rate is 0)")


CORES = [f"/job:localhost/replica:0/task:0/device:TPU:{index}" for index in range(8)]


@pytest.mark.parametrize(("split", "num", "kept"), [("train", 321, 320), ("train", 324, 324), ("test", 97, 97)])
def test_a_last_batch_that_two_devices_do_not_share_evenly_is_left_out_of_training(tmp_path, split, num, kept):
    """Keras averages the replicas' gradients without weights, while metrics count single samples."""
    save_split(tmp_path, split, Arrays(np.zeros((num, 8, 8), np.uint8), np.zeros(num, np.uint8)))
    assert feed_of(trained(devices=2), split, tmp_path).num_samples == kept


def test_two_devices_learn_what_one_does_and_their_replicas_are_equal(digits):
    reason, found, weights, devices = elsewhere(on_two_devices, digits)
    cell = trained()
    run = engine._Run(cell, digits, backend_for(cell))
    alone = run.measure()
    assert (reason, found.num_devices) == (None, 2)
    assert [device[-5:] for device in devices] == ["CPU:0", "CPU:1"]
    for (first, second), mine in zip(weights, run.model.get_weights(), strict=True):
        assert np.array_equal(first, second)
        np.testing.assert_allclose(first, mine, atol=1e-4)
    for both, alike in zip(found.epochs, alone.epochs, strict=True):
        assert both.num_samples == 300
        assert both.loss == pytest.approx(alike.loss, rel=1e-4)
        assert both.evaluation.loss == pytest.approx(alike.evaluation.loss, rel=1e-4)
        assert both.evaluation.accuracy == alike.evaluation.accuracy
    assert found.num_compiles == alone.num_compiles == 2  # for training and for testing


def test_windows_on_two_devices_count_every_sample(digits, hosts):
    for mode in Mode:
        outcome = hosts.run(keras_cell(mode=mode, devices=2), digits)
        assert outcome.status == Status.ok, outcome.reason
        assert outcome.measurement.num_devices == 2
        assert all(block.num_samples == 32 * block.num_steps for block in outcome.measurement.blocks)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": Device.gpu}, "device=gpu: TensorFlow finds 0 of 1"),
        ({"device": Device.tpu}, "engine.tpu=local: TensorFlow reaches no TPU"),
        ({"device": Device.tpu, "keras": {"tpu": "nonesuch"}}, "engine.tpu=nonesuch: TensorFlow reaches no TPU"),
    ],
)
def test_a_device_that_tensorflow_has_not_is_skipped(changes, words):
    with pytest.raises(UnsupportedError, match=words):
        on_tensorflow.strategy_for(keras_cell(**changes))


class Resolver(tf.distribute.cluster_resolver.TPUClusterResolver):
    """TensorFlow's own, which finds a TPU of eight cores."""

    def get_tpu_system_metadata(self):
        devices = [_DeviceAttributes(name, "TPU", 0, 0) for name in CORES]
        host = _DeviceAttributes("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", 0, 0)
        return TPUSystemMetadata(8, 1, 8, None, [*devices, host])


@pytest.fixture
def asked(monkeypatch):
    """The names that resolvers were asked for, on a machine that has a TPU."""
    names = []
    logical = [tf.config.LogicalDevice(name, "TPU") for name in CORES]
    resolvers = tf.distribute.cluster_resolver
    monkeypatch.setattr(resolvers, "TPUClusterResolver", lambda tpu: names.append(tpu) or Resolver("local"))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", lambda resolver: None)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", lambda resolver: names.append("connected"))
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: logical)
    return names


def test_a_tpus_cores_are_all_taken_or_the_first_and_none_and_some_are_refused(asked, monkeypatch):
    every = on_tensorflow.strategy_for(keras_cell({"tpu": "mine"}, device=Device.tpu, devices=8))
    assert isinstance(every, tf.distribute.TPUStrategy)
    assert (list(every.extended.worker_devices), every.num_replicas_in_sync) == (CORES, 8)
    one = on_tensorflow.strategy_for(keras_cell(device=Device.tpu))
    assert list(one.extended.worker_devices) == CORES[:1]
    assert asked == ["mine", "connected", "local"]
    with pytest.raises(UnsupportedError, match="devices=4: TensorFlow takes all 8 cores of a TPU, or one"):
        on_tensorflow.strategy_for(keras_cell(device=Device.tpu, devices=4))
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [])
    with pytest.raises(UnsupportedError, match="engine.tpu=local: TensorFlow finds no TPU core"):
        on_tensorflow.strategy_for(keras_cell(device=Device.tpu))
