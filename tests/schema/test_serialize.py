import functools
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Annotated, Any, TypedDict

import pytest

from accelbench.errors import RefusedError
from accelbench.schema.ranges import Range
from accelbench.schema.serialize import load, read_bytes, read_json, write_json


class Colour(StrEnum):
    red = "red"
    blue = "blue"


@dataclass(frozen=True, kw_only=True)
class Leaf:
    size: Annotated[int, Range(1, 9)]
    colour: Colour = Colour.red


class Entries(TypedDict, total=False):
    num: Annotated[int, Range(1, 9)]


@dataclass(frozen=True, kw_only=True)
class Defaults:
    size: float = 1.0


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
    is_old: bool = False
    sizes: list[Annotated[float, Range(0, 9)]] = field(default_factory=list)
    known_sizes: list[Annotated[float, Range(0, 9)] | None] = field(default_factory=list)
    counts: list[Annotated[int, Range(0, 2**63 - 1)]] = field(default_factory=list)
    defaults: Defaults | None = None
    by_colour: dict[Colour, float] = field(default_factory=dict)
    digest: Annotated[str, re.compile("[0-9a-f]+")] = "0"
    entries: Annotated[Mapping[str, Any], Entries] = field(default_factory=dict)


LONG = [0.5, 9.0, 0.0, 1.0] * 25  # fits `sizes`
NESTED = functools.reduce(lambda inner, _: [inner], range(60), 1)
FULL = Tree(
    name="oak",
    trunk=Leaf(size=3, colour=Colour.blue),
    leaves=[Leaf(size=1), Leaf(size=2)],
    by_name={"top": Leaf(size=4)},
    best=Leaf(size=9),
    **{"pair": (0.5, 1.0), "sizes": [0.5, 1.0], "colours": (Colour.red, Colour.blue), "by_colour": {Colour.red: 0.5}},
    **{"anything": {"list": [1, None]}, "entries": {"num": 3, "another": {"list": [1.5]}}},
)


@pytest.mark.parametrize("tree", [FULL, Tree(name="bush", trunk=Leaf(size=1))], ids=["full", "defaults"])
def test_json_and_back_is_the_same_value(tree):
    loaded = load(Tree, json.loads(json.dumps(asdict(tree))))
    assert loaded == tree
    assert isinstance(loaded.trunk.colour, Colour)
    assert isinstance(loaded.leaves, list)
    assert isinstance(loaded.colours, tuple)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"height": 3}, "unknown field 'height'"),
        ({"is_old": 1}, "is_old: should be true or false, not 1"),
        ({"trunk": {}}, "trunk: lacks size"),
        ({"trunk": {"size": 10}}, "trunk.size: should be a whole number from 1 to 9, not 10"),
        ({"trunk": {"size": 1.0}}, "trunk.size: should be a whole number from 1 to 9, not 1.0"),
        ({"trunk": {"size": 1, "colour": "green"}}, "trunk.colour: should be one of red, blue, not 'green'"),
        ({"leaves": [{"size": 1}, None]}, r"leaves\[1\]: should be a mapping, not None"),
        ({"by_name": {"top": {}}}, "by_name.top: lacks size"),
        ({"by_colour": {"green": 1.0}}, "by_colour.green: should be one of red, blue, not 'green'"),
        ({"pair": [1.0]}, "pair: should be a list of 2"),
        ({"pair": [1.0, float("nan")]}, r"pair\[1\]: should be a number from .*, not nan"),
        ({"sizes": [1.0, 0.0, -1e-9]}, r"sizes\[2\]: should be a number from 0 to 9, not -1e-09"),
        ({"sizes": [*LONG, float("nan"), *LONG]}, r"sizes\[100\]: should be a number from 0 to 9, not nan"),
        ({"sizes": [*LONG, True]}, r"sizes\[100\]: should be a number from 0 to 9, not True"),
        ({"sizes": [*LONG, 10**400]}, r"sizes\[100\]: should be a number from 0 to 9, not 10"),
        ({"counts": [2**63 - 1] * 100 + [2**63]}, r"counts\[100\]: should be a whole number from 0 to 9.22"),
        ({"known_sizes": [None, 1, 2.0, "3"]}, r"known_sizes\[3\]: should be a number from 0 to 9, not '3'"),
        ({"digest": "0x12"}, "digest: should be "),
        (
            {"anything": {"a": float("inf")}},
            "anything.a: should be plain JSON, with finite numbers of 64 bits, not inf",
        ),
        ({"anything": {"a": NESTED}}, "anything.a: should be nested at most 50 deep"),
        ({"entries": {"num": 0}}, "entries.num: should be a whole number from 1 to 9, not 0"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_it(changes, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        load(Tree, {"name": "oak", "trunk": {"size": 1}, **changes})


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


@pytest.mark.parametrize(
    "text", ["", "[1", "NaN", "[Infinity]", "1e400", "1" + 400 * "0", 2000 * "[" + 2000 * "]", '"\\ud800"', "\xff"]
)
def test_json_that_nothing_writes_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text.encode("latin1"))
    with pytest.raises(ValueError, match="line 1"):
        read_json(tmp_path / "a.json")
