import gzip
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from accelbench.data.idx import IdxFile, IdxSet

SHAPES = {"train_images": (6, 4, 3), "train_labels": (6,), "test_images": (2, 4, 3), "test_labels": (2,)}
NAMES = dict(zip(SHAPES, ("train-i", "train-l", "t10k-i", "t10k-l"), strict=True))


@dataclass(frozen=True)
class SmallSet:
    """Four little idx files, written by hand after the format's description."""

    idx_set: IdxSet
    folder: Path
    arrays: dict[str, np.ndarray]

    def packed(self, key: str) -> Path:
        return self.folder / f"{NAMES[key]}.gz"

    def unpack(self, key: str) -> Path:
        plain = self.folder / NAMES[key]
        plain.write_bytes(gzip.decompress(self.packed(key).read_bytes()))
        self.packed(key).unlink()
        return plain

    @property
    def md5(self) -> dict[str, str]:
        return {f"{file.name}.gz": file.md5 for file in self.idx_set.files.values()}


@pytest.fixture
def small(tmp_path: Path) -> SmallSet:
    rng = np.random.default_rng(0)
    folder = tmp_path / "small"
    folder.mkdir()
    files, arrays = {}, {}
    for key, shape in SHAPES.items():
        arrays[key] = rng.integers(0, 10, shape, dtype=np.uint8)
        header = bytes([0, 0, 8, len(shape)]) + b"".join(length.to_bytes(4, "big") for length in shape)
        content = header + arrays[key].tobytes()
        packed = gzip.compress(content)
        (folder / f"{NAMES[key]}.gz").write_bytes(packed)
        files[key] = IdxFile(NAMES[key], shape, hashlib.md5(packed).hexdigest(), hashlib.sha256(content).hexdigest())
    return SmallSet(IdxSet("Small", files, mirrors=()), folder, arrays)


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Gives the folder of a data set's real files, or skips the test."""
    above = Path(os.environ.get("ACCELBENCH_TEST_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))

    def find(name: str) -> Path:
        if not (above / name).is_dir():
            pytest.skip(f"{name}'s files are not here: set ACCELBENCH_TEST_DATA to the folder above {name}")
        return above / name

    return find


@pytest.fixture(scope="session")
def mnist_raw(shared: Callable[[str], Path]) -> Path:
    """The folder of MNIST's four original files."""
    return shared("mnist") / "raw"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask_for: Callable[[str], None]) -> Path:
    """An empty project, and the current folder; `DVC_ROOT` is unset, mirrors can't be reached."""
    root = tmp_path / "project"
    (root / "conf").mkdir(parents=True)
    (root / "conf" / "config.yaml").touch()
    monkeypatch.chdir(root)
    ask_for("auto")
    monkeypatch.delenv("DVC_ROOT", raising=False)
    for variable in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # the discard port: nobody listens
    return root


@pytest.fixture
def ask_for() -> Callable[[str], None]:
    """Has the current folder's params.yaml ask for a source."""
    return lambda source: Path("params.yaml").write_text(f"suites: {{}}\ndata:\n  mnist:\n    source: {source}\n")
