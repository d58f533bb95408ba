import os

import pytest

from accelbench.schema.serialize import read_json, write_json


@pytest.mark.parametrize("value", [object(), float("nan")], ids=["no JSON", "not a number"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, value):
    write_json(tmp_path / "a.json", {"old": 1})
    with pytest.raises((TypeError, ValueError)):
        write_json(tmp_path / "a.json", {"new": list(range(10_000)), "then": value})
    assert read_json(tmp_path / "a.json") == {"old": 1}
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("text", ["", "[1", "NaN", "[Infinity]", "1e400", 2000 * "[" + 2000 * "]", '"\\ud800"', "\xff"])
def test_json_that_nothing_writes_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text.encode("latin1"))
    with pytest.raises(ValueError, match="malformed|truncated|range|deep"):
        read_json(tmp_path / "a.json")
