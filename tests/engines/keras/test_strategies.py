"""Keras on JAX, on two virtual CPUs, and on missing devices."""

import numpy as np
import pytest

from accelbench.data.arrays import Arrays, save_split
from accelbench.engines.keras import engine, on_tensorflow
from accelbench.engines.keras.backends import backend_for
from accelbench.engines.keras.feed import feed_of
from accelbench.errors import UnsupportedError
from accelbench.schema.vocab import STEP_MODES, Device, Mode, Promise
from accelbench.schema.workload import DataSpec
from engines.keras.cells import elsewhere, keras_cell, trained
from engines.keras.others import on_jax, on_two_devices


@pytest.fixture(scope="module")
def jax_side(digits, twins):
    return elsewhere(on_jax, digits, twins, KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")


def test_on_jax_a_step_is_waited_for_and_it_computes_and_learns_as_its_twin_does(jax_side, twins):
    assert jax_side["waited"]
    assert jax_side["error"] < 1e-4
    reason, fit = jax_side["fit"]
    assert reason is None
    assert [epoch.loss for epoch in fit.epochs] == pytest.approx(twins["sgd/losses"], rel=1e-4)
    assert [epoch.evaluation.loss for epoch in fit.epochs] == pytest.approx(twins["sgd/tested"], rel=1e-4)
    # One each for training, testing and their short last batches. Keras may trace training again in the second epoch.
    assert fit.num_compiles in (4, 5)


@pytest.mark.parametrize("mode", STEP_MODES)
def test_on_jax_what_was_asked_for_runs_and_compiles_once_and_is_seen(jax_side, mode):
    reason, measured = jax_side[mode]
    assert (reason, measured.warnings, measured.num_compiles) == (None, [], 1)
    assert (measured.loss is None) == (mode == Mode.infer)
    observed = {check.promise: check.observed for check in measured.checks}
    if mode == Mode.train:
        assert observed[Promise.training].startswith("6 of 6 trainable tensors changed in the steady state")
    else:
        assert 1e-5 < measured.output_error < 0.05
        assert "100 % in bfloat16" in observed[Promise.precision]
        assert observed[Promise.outputs] is not None


@pytest.mark.parametrize(("split", "num", "kept"), [("train", 321, 320), ("train", 324, 324), ("test", 97, 97)])
def test_a_last_batch_that_two_devices_do_not_share_evenly_is_left_out_of_training(tmp_path, split, num, kept):
    """Keras averages the gradients of replicas without weights, but its metrics count single samples."""
    save_split(tmp_path, split, Arrays(np.zeros((num, 8, 8), np.uint8), np.zeros(num, np.uint8)))
    assert feed_of(trained(devices=2), split, tmp_path).num_samples == kept
    part = trained(devices=2, data=DataSpec(name="mnist", train_images=96))
    assert feed_of(part, split, tmp_path).num_samples == (96 if split == "train" else kept)


@pytest.mark.slow
def test_two_devices_learn_what_one_does_and_their_replicas_are_equal(digits):
    reason, measurement, weights, devices = elsewhere(on_two_devices, digits)
    cell = trained()
    run = engine.Run(cell, digits, backend_for(cell))
    alone = run.measure()
    assert (reason, measurement.num_devices) == (None, 2)
    assert [device[-5:] for device in devices] == ["CPU:0", "CPU:1"]
    for (first, second), mine in zip(weights, run.model.get_weights(), strict=True):
        assert np.array_equal(first, second)
        np.testing.assert_allclose(first, mine, atol=1e-4)
    for both, alike in zip(measurement.epochs, alone.epochs, strict=True):
        assert both.num_samples == 300
        assert both.loss == pytest.approx(alike.loss, rel=1e-4)
        assert both.evaluation.loss == pytest.approx(alike.evaluation.loss, rel=1e-4)
        assert both.evaluation.accuracy == alike.evaluation.accuracy
    assert measurement.num_compiles == alone.num_compiles == 2  # for training and for testing


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
