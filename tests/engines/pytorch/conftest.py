import os
import subprocess
import sys

import pytest

from accelbench.engines.pytorch import global_state


@pytest.fixture
def state_as_before():
    """Restores PyTorch's global settings after the test."""
    before = global_state.snapshot()
    yield
    global_state.restore(before)


@pytest.fixture(scope="session")
def printed():
    """Runs code in a separate process and returns its printed lines: importing torch_xla replaces parts of torch.nn."""

    def printed(code, **variables):
        environment = {**os.environ, "PJRT_DEVICE": "CPU", **variables}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    return printed
