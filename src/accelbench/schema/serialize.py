"""Typed values <-> JSON: loading, canonical text, digests, and files that are written whole or not at all."""

import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Converter = Callable[[Any], Any]


def load(cls: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass `cls` from `values`, which are what `dataclasses.asdict` gave or JSON made of it.

    A field that `values` lack takes its default. Only fields of dataclasses, enums and tuples, also inside lists,
    mappings and `| None`, are converted; numbers, text and the like are taken as they are, unchecked.

    Raises:
        TypeError: `values` have an unknown field, lack a field without a default, or are of a wrong shape.
        ValueError: a value is no member of its enum, or of a wrong shape.
    """
    kind: Any = cls
    loaded: T = _dataclass_converter(kind)(values)
    return loaded


@functools.cache
def _converter(hint: Any) -> Converter | None:
    """What makes a value of the type `hint` from a JSON value; None if the JSON value is that value already."""
    kind: Any = get_origin(hint) or hint
    args = get_args(hint)
    if hasattr(kind, "__dataclass_fields__"):
        return _dataclass_converter(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = {member.value: member for member in kind}
        return lambda value: members.get(value) or kind(value)  # the dictionary is five times as fast as the call
    (item, *others) = {_converter(arg) for arg in args if arg not in (NoneType, Ellipsis)} - {None} or {None}
    assert not others, f"{hint}: one type per field is supported"
    if kind is tuple:
        return tuple if item is None else lambda values: tuple([item(value) for value in values])
    if item is None:
        return None
    if kind in (Union, UnionType):
        return lambda value: None if value is None else item(value)
    if kind is list:
        return lambda values: [item(value) for value in values]
    return lambda values: {name: item(value) for name, value in dict(values).items()}


@functools.cache
def _dataclass_converter(cls: Any) -> Converter:
    found = ((name, _converter(hint)) for name, hint in get_type_hints(cls).items())
    fields = [(name, convert) for name, convert in found if convert is not None]
    if not fields:
        return lambda values: cls(**values)

    def convert_fields(values: Mapping[str, Any]) -> Any:
        converted = dict(values)
        for name, convert in fields:
            if name in converted:
                converted[name] = convert(converted[name])
        return cls(**converted)

    return convert_fields


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal texts on every machine."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: object) -> str:
    """The sha256 of `value`'s canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def write_json(path: Path, value: object) -> None:
    """Writes JSON atomically: whatever happens, `path` has either its old text or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", suffix=".tmp", delete=False) as file:
        try:
            json.dump(value, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
