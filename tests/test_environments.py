import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = sorted((ROOT / "environments").glob("*.in"))
# The packages that compute. Each environment exists to have another set of them.
COMPUTING = {"jax", "keras", "pytorch-lightning", "tensorflow", "timm", "torch", "torch_xla", "torchvision"}


def ranges(requirements):
    """Package name -> its requirement line, without the packages that compute."""
    found = {re.match(r"[\w-]+", line).group(): line for line in requirements}
    return {name: line for name, line in found.items() if name not in COMPUTING}


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_an_environment_differs_from_the_project_only_in_the_packages_that_compute(path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert ranges(lines) == ranges(project["dependencies"])
    assert {re.match(r"[\w-]+", line).group() for line in lines} & COMPUTING


LOCKS = [ROOT / "requirements.lock", ROOT / "bench/peer.lock", *(path.with_suffix(".lock") for path in ENVIRONMENTS)]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_lock_has_hashes_and_names_no_host(lock):
    text = lock.read_text()
    assert "://" not in text
    assert all(block.count("--hash=sha256:") for block in re.split(r"\n(?=[\w-]+==)", text)[1:])


def test_no_separate_environment_has_torch():
    assert ENVIRONMENTS
    for path in ENVIRONMENTS:
        assert not re.search(r"^torch", path.with_suffix(".lock").read_text(), re.MULTILINE)
