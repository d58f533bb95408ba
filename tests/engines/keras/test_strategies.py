"""Several devices: two virtual CPUs for real, and the TPU's classes with a resolver that pretends there is one."""

import json
import os
import subprocess
import sys
from pathlib import Path

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
from accelbench.schema.vocab import Device, Mode, Status
from engines.keras.cells import keras_cell, trained
from fakes import TESTS

CORES = [f"/job:localhost/replica:0/task:0/device:TPU:{index}" for index in range(8)]


@pytest.mark.parametrize(("split", "num", "kept"), [("train", 321, 320), ("train", 324, 324), ("test", 97, 97)])
def test_a_last_batch_that_two_devices_do_not_share_evenly_is_left_out_of_training(tmp_path, split, num, kept):
    """Keras averages the replicas' gradients without weights, while metrics count single samples."""
    save_split(tmp_path, split, Arrays(np.zeros((num, 8, 8), np.uint8), np.zeros(num, np.uint8)))
    assert feed_of(trained(devices=2), split, tmp_path).num_samples == kept


def test_two_devices_learn_what_one_does_and_their_replicas_are_equal(digits, tmp_path):
    script, out = Path(__file__).with_name("replicas.py"), tmp_path / "replicas.json"
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    subprocess.run([sys.executable, str(script), str(digits), str(out)], check=True, env=environment)
    found = json.loads(out.read_text())
    cell = trained()
    run = engine._Run(cell, digits, backend_for(cell))
    alone = run.measure()
    assert found["judged"] is None
    assert found["num_devices"] == 2
    assert set(found["num_replicas"]) == {2}
    assert all(found["equal"])
    assert [device[-5:] for device in found["devices"]] == ["CPU:0", "CPU:1"]
    assert found["losses"] == pytest.approx([epoch.loss for epoch in alone.epochs], rel=1e-4)
    assert found["tested"] == pytest.approx([epoch.evaluation.loss for epoch in alone.epochs], rel=1e-4)
    assert found["accuracies"] == [epoch.evaluation.accuracy for epoch in alone.epochs]
    assert set(found["num_samples"]) == {300}
    assert found["num_compiles"] == alone.num_compiles == 2  # for training and for testing
    for theirs, mine in zip(found["weights"], run.model.get_weights(), strict=True):
        np.testing.assert_allclose(np.array(theirs), mine, atol=1e-4)


def test_windows_on_two_devices_count_every_sample(digits, hosts):
    for mode in Mode:
        outcome = hosts.run(keras_cell(mode=mode, devices=2), digits)
        assert outcome.status == Status.ok, outcome.error
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

    def resolve(tpu):
        names.append(tpu)
        return Resolver("local")

    logical = [tf.config.LogicalDevice(name, "TPU") for name in CORES]
    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolve)
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", lambda resolver: None)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", lambda resolver: names.append("connected"))
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: logical)
    return names


def test_a_tpus_cores_are_all_taken_or_the_first(asked):
    every = on_tensorflow.strategy_for(keras_cell({"tpu": "mine"}, device=Device.tpu, devices=8))
    assert isinstance(every, tf.distribute.TPUStrategy)
    assert list(every.extended.worker_devices) == CORES
    assert every.num_replicas_in_sync == 8
    one = on_tensorflow.strategy_for(keras_cell(device=Device.tpu))
    assert list(one.extended.worker_devices) == CORES[:1]
    assert asked == ["mine", "connected", "local"]


def test_some_of_a_tpus_cores_or_none_are_not_to_be_had(asked, monkeypatch):
    with pytest.raises(UnsupportedError, match="devices=4: TensorFlow takes all 8 cores of a TPU, or one"):
        on_tensorflow.strategy_for(keras_cell(device=Device.tpu, devices=4))
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [])
    with pytest.raises(UnsupportedError, match="engine.tpu=local: TensorFlow finds no TPU core"):
        on_tensorflow.strategy_for(keras_cell(device=Device.tpu))
