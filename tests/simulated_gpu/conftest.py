"""A simulated NVIDIA GPU beneath PyTorch's real CUDA build: `source/` is its driver, `python/` computes for it.

It shows whether the path for a GPU works, never how fast it is. Kernels for GPUs, such as Triton's, do not run on it.
"""

import json
import os
import subprocess
import sys

import pytest

from .build import build, why_not

STEPS = "breakdown_s=0.05 window.measure_s=0.1 window.latency_s=0.05 window.warmup_s=0.05"
STEPS += " window.warmup_steps=2 window.latency_steps=10 window.block_s=0.02"


@pytest.fixture(scope="session")
def variables(tmp_path_factory):
    """Those with which a process sees the simulated GPUs. Their ceilings are probed once for all tests."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    cache = {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    return {**os.environ, **build(tmp_path_factory.mktemp("driver")), **cache}


@pytest.fixture
def simulated(variables, tmp_path):
    """Runs Python with these words, and variables of gpus.h; returns what it printed."""

    def run(*words, status=0, **others):
        pipes = {"capture_output": True, "text": True, "cwd": tmp_path, "env": variables | others}
        ran = subprocess.run([sys.executable, *words], check=False, timeout=280, **pipes)
        assert ran.returncode == status, ran.stdout + ran.stderr
        return ran.stdout

    return run


@pytest.fixture
def sweep(simulated, tmp_path):
    """Runs `accelbench` on the GPU with short windows; returns the records by the labels of cells."""

    def run(words, data="data=random", brief=STEPS, **others):
        out = tmp_path / "runs" / "it"
        named = ["-m", "tracking=none", *brief.split(), data, "device=gpu", f"out={out}", *words.split()]
        simulated("-m", "accelbench.cli", *named, **others)
        planned = json.loads((out / "plan.json").read_text())["cells"]
        records = {each["label"]: json.loads((out / f"{each['record']}.json").read_text()) for each in planned}
        assert len(records) == len(planned)
        return records

    return run
