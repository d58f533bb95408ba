import os

os.environ.update({"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""})

import subprocess  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import pytest  # noqa: E402

from accelbench.isolation.hosts import Hosts  # noqa: E402
from fakes import TESTS  # noqa: E402


@pytest.fixture(scope="session")
def twins(digits, tmp_path_factory):
    """What the Lightning engine's networks gave, by name: see twins.py."""
    out = tmp_path_factory.mktemp("twins") / "twins.npz"
    script = Path(__file__).with_name("twins.py")
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    subprocess.run([sys.executable, str(script), str(digits), str(out)], check=True, env=environment)
    return np.load(out)


@pytest.fixture(scope="session")
def hosts():
    with Hosts() as running:
        yield running
