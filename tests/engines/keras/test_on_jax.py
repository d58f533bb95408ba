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


def test_a_step_is_waited_for(found):
    assert found["waited"]


@pytest.mark.parametrize("case", OUTPUTS)
def test_a_network_computes_what_its_twin_does(found, case):
    assert found[case] < 1e-4


def test_it_learns_as_its_twin_does(found, twins):
    assert found["fit"]["judged"] is None
    assert found["fit"]["losses"] == pytest.approx(twins["sgd/losses"].tolist(), rel=1e-4)
    assert found["fit"]["tested"] == pytest.approx(twins["sgd/tested"].tolist(), rel=1e-4)
    # Training and testing, and each one's short last batch; Keras may trace training anew in the second epoch.
    assert found["fit"]["num_compiles"] in (4, 5)


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_what_was_asked_for_runs_and_compiles_once(found, mode):
    assert found[mode]["judged"] is None
    assert found[mode]["warnings"] == []
    assert found[mode]["num_compiles"] == 1
    assert (found[mode]["loss"] is None) == (mode == "infer")
    assert mode == "train" or 1e-5 < found[mode]["output_error"] < 0.05


def test_it_is_seen_to_train_and_to_compute(found):
    assert found["train"]["seen"]["training"].startswith("6 of 6 trainable tensors changed in the steady state")
    assert "100 % in bfloat16" in found["infer"]["seen"]["precision"]
    assert "never fed" in found["infer"]["seen"]["outputs"]  # of the outputs' two, the second one


def test_a_learning_rate_of_zero_makes_the_cell_invalid(found):
    assert found["still"].endswith("(the learning rate is 0)")
