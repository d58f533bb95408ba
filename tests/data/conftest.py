import gzip
import hashlib
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from accelbench.data.arrays import load_split
from accelbench.data.sets import MNIST_NAMES, like_mnist

SHAPES = dict(zip(MNIST_NAMES, [(6, 4, 3), (6,), (2, 4, 3), (2,)], strict=True))


def encoded(image, kind="PNG", **options):
    content = BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def plain(brightness):
    return encoded(Image.new("RGB", (20, 12), (brightness,) * 3))


def counts(folder):
    return {split: np.bincount(load_split(folder, split).labels).tolist() for split in ("train", "test")}


@pytest.fixture
def small(tmp_path):
    """Four little idx files, written by hand after the format's description; their mirror can't be reached."""
    rng = np.random.default_rng(0)
    folder, sha256, arrays = tmp_path / "small", {}, []
    for name, shape in SHAPES.items():
        arrays.append(rng.integers(0, 10, shape, dtype=np.uint8))
        header = bytes([0, 0, 8, len(shape)]) + b"".join(length.to_bytes(4, "big") for length in shape)
        packed = gzip.compress(header + arrays[-1].tobytes())
        write(folder / name, packed)
        sha256[name] = hashlib.sha256(packed).hexdigest()
    words = {"title": "Small", "home": "data/Small/raw", "classes": [*"0123456789"]}
    data_set = like_mnist(*sha256.values(), **words, mirror="http://127.0.0.1:9/")
    return SimpleNamespace(sha256=sha256, folder=folder, arrays=arrays, data_set=data_set)


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project, and the current folder; mirrors can't be reached."""
    root = tmp_path / "project"
    write(root / "conf" / "config.yaml", b"")
    monkeypatch.chdir(root)
    ask_for("auto")
    for variable in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # the discard port: nobody listens
    return root


def ask_for(source, key="source"):
    Path("params.yaml").write_text(f"suites: {{}}\ndata: {{mnist: {{{key}: {source}}}}}\n")
