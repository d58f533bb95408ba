import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import pytest

from accelbench.schema.serialize import load, write_json


class Colour(StrEnum):
    red = "red"
    blue = "blue"


@dataclass(frozen=True, kw_only=True)
class Leaf:
    size: int
    colour: Colour = Colour.red


@dataclass(frozen=True, kw_only=True)
class Tree:
    name: str
    trunk: Leaf
    leaves: list[Leaf] = field(default_factory=list)
    by_name: Mapping[str, Leaf] = field(default_factory=dict)
    pair: tuple[float, float] | None = None
    colours: tuple[Colour, ...] = ()
    best: Leaf | None = None
    anything: dict[str, Any] = field(default_factory=dict)


FULL = Tree(
    name="oak",
    trunk=Leaf(size=3, colour=Colour.blue),
    leaves=[Leaf(size=1), Leaf(size=2)],
    by_name={"top": Leaf(size=4)},
    pair=(0.5, 1.0),
    colours=(Colour.red, Colour.blue),
    best=Leaf(size=9),
    anything={"list": [1, None]},
)


@pytest.mark.parametrize("tree", [FULL, Tree(name="bush", trunk=Leaf(size=1))], ids=["full", "defaults"])
def test_json_and_back_is_the_same_value(tree):
    loaded = load(Tree, json.loads(json.dumps(asdict(tree))))
    assert loaded == tree
    assert isinstance(loaded.trunk.colour, Colour)
    assert isinstance(loaded.leaves, list)
    assert isinstance(loaded.colours, tuple)


def test_a_missing_field_takes_its_default():
    assert load(Tree, {"name": "bush", "trunk": {"size": 1}}) == Tree(name="bush", trunk=Leaf(size=1))


def test_the_values_stay_as_they_are():
    values = asdict(FULL)
    load(Tree, values)
    assert values == asdict(FULL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": None, "height": 3}, "height"),
        ({"trunk": {}}, "size"),
        ({"trunk": None}, "mapping|NoneType"),
        ({"trunk": {"size": 1, "colour": "green"}}, "green"),
        ({"trunk": {"size": 1, "colour": None}}, "None"),
        ({"trunk": {"size": 1, "colour": ["red"]}}, "list"),
        ({"leaves": {"size": 1}}, "mapping|str|dictionary"),
        ({"leaves": None}, "NoneType"),
        ({"by_name": [1]}, "dictionary"),
        ({"pair": 3}, "int"),
    ],
)
def test_a_wrong_shape_is_an_error_that_names_it(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        load(Tree, {"name": "oak", "trunk": {"size": 1}, **changes})


@pytest.mark.parametrize("value", [object(), float("nan")], ids=["no JSON", "not a number"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, value):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})
    with pytest.raises((TypeError, ValueError)):
        write_json(path, {"new": list(range(10_000)), "then": value})
    assert json.loads(path.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_json(path, {"new": 1})
    assert json.loads(path.read_text()) == {"old": 1}
    assert os.listdir(tmp_path) == ["a.json"]
