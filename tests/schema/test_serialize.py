import os

import pytest

from accelbench.errors import RefusedError
from accelbench.schema.serialize import read_bytes, read_json, write_json


@pytest.mark.parametrize("value", [object(), float("nan")], ids=["no JSON", "not a number"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, value):
    write_json(tmp_path / "a.json", {"old": 1})
    with pytest.raises((TypeError, ValueError)):
        write_json(tmp_path / "a.json", {"new": list(range(10_000)), "then": value})
    assert read_json(tmp_path / "a.json") == {"old": 1}
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.fault
def test_only_a_regular_file_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b"[1]")
    (tmp_path / "link").symlink_to("file")
    assert read_bytes(tmp_path / "link") == b"[1]"
    assert read_json(tmp_path / "link") == [1]
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "lost").symlink_to("nowhere")
    num_open = len(os.listdir("/proc/self/fd"))
    for name in ("pipe", "folder", "loop", "lost", "none"):
        with pytest.raises((OSError, RefusedError), match=name):
            read_bytes(tmp_path / name)
    assert len(os.listdir("/proc/self/fd")) == num_open


@pytest.mark.parametrize("text", ["", "[1", "NaN", "[Infinity]", "1e400", 2000 * "[" + 2000 * "]", '"\\ud800"', "\xff"])
def test_json_that_nothing_writes_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text.encode("latin1"))
    with pytest.raises(ValueError, match="malformed|truncated|range|deep"):
        read_json(tmp_path / "a.json")
