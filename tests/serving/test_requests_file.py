import dataclasses

import numpy as np
import pytest

from accelbench.errors import UserError
from accelbench.serving import requests_file
from accelbench.serving.server import Served


@pytest.fixture
def served():
    times = np.arange(5, dtype=np.int64)
    counts = {"batches": {1: 5}, "num_padded": 0, "busy_ns": 5, "num_workers": 1, "num_errors": 0, "seed": 3}
    rows = {row: times + index for index, row in enumerate(requests_file.ROWS)}
    return Served(**rows, **counts, error=None, ended_early=None, defects=[])


def test_the_file_of_requests_gives_back_the_times_and_its_digest_tells_others(served, tmp_path):
    path = tmp_path / "one.requests.npy"
    digest = requests_file.write(served, path)
    assert requests_file.read(path).tolist() == [[row + index for index in range(5)] for row in range(4)]
    assert requests_file.write(served, tmp_path / "again.npy") == digest
    late = dataclasses.replace(served, done=served.done + 1)
    assert requests_file.write(late, tmp_path / "other.npy") != digest
    assert (requests_file.read(path, digest) == requests_file.read(path)).all()
    with pytest.raises(UserError, match="damaged"):
        requests_file.read(tmp_path / "other.npy", digest)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["again.npy", "one.requests.npy", "other.npy"]


def _pickle(path):
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)


def _archive(path):
    with path.open("wb") as file:
        np.savez(file, due=np.zeros(3))


def _header(path, shape):
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.unlink(), "can't be read: No such file"),
        (lambda path: path.write_bytes(path.read_bytes()[:-8]), "not a file of requests, or damaged"),
        (lambda path: path.write_bytes(b""), "not a file of requests, or damaged"),
        (lambda path: path.write_text("{}"), "not a file of requests, or damaged"),
        (_pickle, "not a file of requests, or damaged"),
        (_archive, "not a file of requests, or damaged"),
        (lambda path: np.save(path, np.zeros((4, 3))), "not a file of requests, or damaged"),
        (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(99)), "not a file of requests, or damaged"),
        (lambda path: _header(path, "(4, 10000000000000000000000000), "), "not a file of requests, or damaged"),
        (lambda path: _header(path, "(" * 3000), "not a file of requests, or damaged"),
    ],
)
def test_a_damaged_file_of_requests_is_refused(served, tmp_path, damage, says):
    path = tmp_path / "one.requests.npy"
    requests_file.write(served, path)
    damage(path)
    with pytest.raises(UserError, match=says):
        requests_file.read(path)
