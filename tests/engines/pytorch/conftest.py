import os
import subprocess
import sys

import pytest

from accelbench.engines.pytorch import global_state


@pytest.fixture
def state_as_before():
    """PyTorch's global settings are set back after the test."""
    before = global_state.snapshot()
    yield
    global_state.restore(before)


@pytest.fixture(scope="session")
def printed():
    """What code prints in a process of its own, a value a line: importing torch_xla replaces parts of torch.nn."""

    def printed(code, **variables):
        environment = {**os.environ, "PJRT_DEVICE": "CPU", **variables}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    return printed
