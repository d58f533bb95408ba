import os
import subprocess
import sys

import pytest
import torch

from accelbench.engines.pytorch.precision import reset_settings, use_threads


@pytest.fixture
def state_as_before():
    """Restores PyTorch's global settings after the test."""
    threads = torch.get_num_threads()
    yield
    use_threads(threads)
    torch.set_default_dtype(torch.float32)
    reset_settings(allow_tf32=False)


@pytest.fixture(scope="session")
def printed():
    """Runs code in a separate process and returns its printed lines: importing torch_xla replaces parts of torch.nn."""

    def printed(code, **variables):
        environment = {**os.environ, "PJRT_DEVICE": "CPU", **variables}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    return printed
