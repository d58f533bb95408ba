import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = sorted((ROOT / "environments").glob("*.in"))
# What computes: another set of it is what each environment is for.
COMPUTING = {"jax", "keras", "pytorch-lightning", "tensorflow", "timm", "torch", "torch_xla", "torchvision"}


def ranges(requirements):
    """The ranges by package, without those that compute."""
    found = {re.match(r"[\w-]+", line).group(): line for line in requirements}
    return {name: line for name, line in found.items() if name not in COMPUTING}


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_an_environment_of_its_own_differs_in_what_computes_alone(path):
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


def test_torch_is_in_none_of_them():
    assert ENVIRONMENTS
    for path in ENVIRONMENTS:
        assert not re.search(r"^torch", path.with_suffix(".lock").read_text(), re.MULTILINE)
