import gzip
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from accelbench.data.sets import MNIST_NAMES, like_mnist

SHAPES = dict(zip(MNIST_NAMES, [(6, 4, 3), (6,), (2, 4, 3), (2,)], strict=True))


@dataclass(frozen=True)
class SmallSet:
    """Four little idx files, written by hand after the format's description."""

    sha256: dict[str, str]
    folder: Path
    arrays: dict[str, np.ndarray]

    def data_set(self):
        """Their data set, whose mirror can't be reached."""
        words = {"title": "Small", "home": "data/Small/raw", "classes": [*"0123456789"]}
        return like_mnist(*self.sha256.values(), **words, mirror="http://127.0.0.1:9/")


@pytest.fixture
def small(tmp_path: Path) -> SmallSet:
    rng = np.random.default_rng(0)
    folder = tmp_path / "small"
    folder.mkdir()
    sha256, arrays = {}, {}
    for name, shape in SHAPES.items():
        arrays[name] = rng.integers(0, 10, shape, dtype=np.uint8)
        header = bytes([0, 0, 8, len(shape)]) + b"".join(length.to_bytes(4, "big") for length in shape)
        content = header + arrays[name].tobytes()
        packed = gzip.compress(content)
        (folder / name).write_bytes(packed)
        sha256[name] = hashlib.sha256(packed).hexdigest()
    return SmallSet(sha256, folder, arrays)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Gives the folder of a data set's real files, or skips the test."""
    above = Path(os.environ.get("ACCELBENCH_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))

    def find(name: str) -> Path:
        if not (above / name).is_dir():
            pytest.skip(f"{name}'s files are not here: set ACCELBENCH_TEST_DATA to the folder above {name}")
        return above / name

    return find


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask_for: Callable[[str], None]) -> Path:
    """An empty project, and the current folder; mirrors can't be reached."""
    root = tmp_path / "project"
    (root / "conf").mkdir(parents=True)
    (root / "conf" / "config.yaml").touch()
    monkeypatch.chdir(root)
    ask_for("auto")
    for variable in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # the discard port: nobody listens
    return root


@pytest.fixture
def ask_for() -> Callable[[str], None]:
    """Has the current folder's params.yaml ask for a source."""
    return lambda source: Path("params.yaml").write_text(f"suites: {{}}\ndata:\n  mnist:\n    source: {source}\n")
