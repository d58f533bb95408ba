"""Keras on two virtual CPUs, and on missing devices."""

import numpy as np
import pytest

from accelbench.data.arrays import Arrays, save_split
from accelbench.engines.keras import engine
from accelbench.engines.keras.feed import feed_of
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import DataSpec, Device
from engines.keras.cells import elsewhere, keras_cell, on_two_devices, trained


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
