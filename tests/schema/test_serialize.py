import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import pytest
from msgspec import Meta

from accelbench.errors import RefusedError
from accelbench.schema.serialize import load, read_bytes, read_json, safe, write_json


class Colour(StrEnum):
    red = "red"
    blue = "blue"


@dataclass(frozen=True, kw_only=True)
class Leaf:
    size: Annotated[int, Meta(ge=1, le=9)]
    colour: Colour = Colour.red


@dataclass(frozen=True, kw_only=True)
class Tree:
    name: str
    trunk: Leaf
    leaves: list[Leaf] = field(default_factory=list)
    by_name: Mapping[str, Leaf] = field(default_factory=dict)
    colours: tuple[Colour, ...] = ()
    anything: dict[str, Any] = field(default_factory=dict)


FULL = Tree(
    name="oak",
    trunk=Leaf(size=3, colour=Colour.blue),
    leaves=[Leaf(size=1), Leaf(size=2)],
    by_name={"top": Leaf(size=4)},
    colours=(Colour.red, Colour.blue),
    anything={"list": [1, None]},
)


@pytest.mark.parametrize("tree", [FULL, Tree(name="bush", trunk=Leaf(size=1))], ids=["full", "defaults"])
def test_json_and_back_is_the_same_value(tree):
    loaded = load(Tree, json.loads(json.dumps(asdict(tree))))
    assert loaded == tree
    assert isinstance(loaded.trunk.colour, Colour)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trunk": {}}, "trunk: Object missing required field `size`"),
        ({"trunk": {"size": 10}}, "trunk.size: should be `int` <= 9"),
        ({"leaves": [{"size": 1}, None]}, r"leaves\[1\]: should be `object`, got `null`"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_it(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        load(Tree, safe({"name": "oak", "trunk": {"size": 1}, **changes}))


def test_a_field_of_another_release_is_ignored():
    values = {"name": "oak", "trunk": {"size": 1}}
    assert load(Tree, {**values, "trunk": {"size": 1, "age": 3}, "height": 3}) == load(Tree, values)


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
