"""The engine on JAX, which another process ran: see jax_side.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engines.keras.jax_side import OUTPUTS
from fakes import TESTS


@pytest.fixture(scope="module")
def found(digits, twins, tmp_path_factory):
    folder = tmp_path_factory.mktemp("jax")
    np.savez(folder / "twins.npz", **twins)
    script = Path(__file__).with_name("jax_side.py")
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(script), str(digits), str(folder / "twins.npz"), str(folder / "found.json")]
    subprocess.run(command, check=True, env=environment)
    return json.loads((folder / "found.json").read_text())


def test_a_step_is_waited_for_and_networks_compute_what_their_twins_do(found):
    assert found["waited"]
    assert max(found[case] for case in OUTPUTS) < 1e-4


def test_it_learns_as_its_twin_does(found, twins):
    assert found["fit"]["judged"] is None
    assert found["fit"]["losses"] == pytest.approx(twins["sgd/losses"].tolist(), rel=1e-4)
    assert found["fit"]["tested"] == pytest.approx(twins["sgd/tested"].tolist(), rel=1e-4)
    # Training and testing, and each one's short last batch; Keras may trace training anew in the second epoch.
    assert found["fit"]["num_compiles"] in (4, 5)


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_what_was_asked_for_runs_and_compiles_once_and_is_seen(found, mode):
    of = found[mode]
    assert (of["judged"], of["warnings"], of["num_compiles"]) == (None, [], 1)
    assert (of["loss"] is None) == (mode == "infer")
    if mode == "train":
        assert of["seen"]["training"].startswith("6 of 6 trainable tensors changed in the steady state")
    else:
        assert 1e-5 < of["output_error"] < 0.05
        assert "100 % in bfloat16" in of["seen"]["precision"]
        assert "never fed" in of["seen"]["outputs"]  # of the outputs' two, the second one


def test_a_learning_rate_of_zero_makes_the_cell_invalid(found):
    assert found["still"].endswith("(the learning rate is 0)")
