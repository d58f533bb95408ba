"""What makes typed values of JSON values, and refuses those that do not fit; `serialize.load` applies it.

No library: a cell's process has only its framework, unknown fields are errors, and texts of others are made safe.
"""

import dataclasses
import functools
import math
import re
import reprlib
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin, get_type_hints, is_typeddict

from accelbench.schema.ranges import MAX_COUNT, Range
from accelbench.schema.text import beginning, one_line

MAX_PLACE = 60  # characters of a name in an error's path
MAX_DEPTH = 50
FINITE, WHOLE = Range(-sys.float_info.max, sys.float_info.max), Range(-MAX_COUNT, MAX_COUNT)
MAPPING: Any = dict | Mapping  # nearly all are of the first, which is found sooner

Converter = Callable[[Any], Any]


@functools.cache
def converter(hint: Any, clean: bool) -> Converter:
    """What makes a value of the type `hint` from a JSON value. For one that does not fit it raises a ValueError.

    The error's text is the path of the value, with `.` before a field and `[]` around an index, `: ` and what is wrong.
    With `clean`, texts are made safe to show and cut (`text.beginning`).
    """
    kind, args = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:  # a range of numbers, a pattern of text, or a more exact type
        if isinstance(args[1], Range):
            return _number(args[0], args[1])
        return _matching(args[1]) if isinstance(args[1], re.Pattern) else converter(args[1], clean)
    if kind in (Union, UnionType):
        (item,) = (converter(arg, clean) for arg in args if arg is not NoneType)
        return lambda value: None if value is None else item(value)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, clean)
    if is_typeddict(kind):  # the entries that it declares have their types, others are plain JSON
        entries = {name: converter(each, clean) for name, each in get_type_hints(kind, include_extras=True).items()}
        return _mapping(converter(str, clean), entries, converter(Any, clean))
    if kind is list:
        return _list(args[0], clean)
    if kind is tuple:
        return _tuple(_list(args[0], clean), None if Ellipsis in args else len(args))
    if args:
        return _mapping(converter(args[0], clean), {}, converter(args[1], clean))
    if kind is Any:
        return functools.partial(_plain, converter(str, clean))
    if issubclass(kind, Enum):
        return _enum(kind)
    if kind in (str, bool):
        wanted = "text" if kind is str else "true or false"
        finish = beginning if clean and kind is str else kind
        return lambda value: finish(value) if isinstance(value, kind) else _refuse(value, wanted)
    return _number(kind, FINITE if kind is float else WHOLE)


def _refuse(value: object, wanted: str) -> NoReturn:
    raise ValueError(f": should be {wanted}, not {reprlib.repr(value)}")


def _plain(text: Converter, value: Any, depth: int = 0) -> Any:
    """Plain JSON, with finite numbers of 64 bits, and not so deep that a recursive function fails."""
    if isinstance(value, str):
        return text(value)
    bounds = WHOLE if isinstance(value, int) else FINITE
    if value is None or (isinstance(value, int | float) and bounds.low <= value <= bounds.high):
        return value
    if depth == MAX_DEPTH:
        _refuse(value, f"nested at most {MAX_DEPTH} deep")
    if isinstance(value, dict):
        return {text(name): _plain(text, item, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(text, item, depth + 1) for item in value]
    return _refuse(value, "plain JSON, with finite numbers of 64 bits")


def _enum(kind: type[Enum]) -> Converter:
    members: dict[Any, Enum] = {member.value: member for member in kind}

    def convert(value: Any) -> Any:
        found = members.get(value) if isinstance(value, str) else None
        return found or _refuse(value, f"one of {', '.join(members)}")

    return convert


def _matching(pattern: re.Pattern[str]) -> Converter:
    fits = pattern.fullmatch
    return lambda value: value if isinstance(value, str) and fits(value) else _refuse(value, pattern.pattern)


def _number(kind: Any, bounds: Range) -> Converter:
    low, high = bounds.low, bounds.high
    wanted = f"a {'whole ' if kind is int else ''}number from {low:g} to {high:g}"

    def convert(value: Any) -> Any:
        # `type(value)`, since bool is an int. Whole numbers may be written without a point.
        if (type(value) is kind or type(value) is int) and low <= value <= high:
            return value
        return _refuse(value, wanted)

    return convert


def _list(hint: Any, clean: bool) -> Converter:
    item = converter(hint, clean)
    number = next((part for part in (hint, *get_args(hint)) if get_origin(part) is Annotated), None)
    kind, bounds = get_args(number)[:2] if number else (None, None)

    def convert(values: Any) -> Any:
        if not isinstance(values, list | tuple):
            _refuse(values, "a list")
        # Thousands of numbers are faster looked at together. Their sum is no number if one of them is NaN, which
        # `min` and `max` may miss.
        are_numbers = values and isinstance(bounds, Range) and {kind, int}.issuperset(map(type, values))
        if are_numbers and bounds.low <= min(values) and max(values) <= bounds.high and not math.isnan(sum(values)):
            return list(values)
        found: list[Any] = []
        try:
            for value in values:
                found.append(item(value))
        except ValueError as error:
            raise ValueError(f"[{len(found)}]{error}") from None
        return found

    return convert


def _tuple(items: Converter, num: int | None) -> Converter:
    """For `tuple[X, ...]`, and for tuples of a fixed length whose items are of one type."""

    def convert(values: Any) -> Any:
        found = tuple(items(values))
        return found if num in (None, len(found)) else _refuse(values, f"a list of {num}")

    return convert


def _mapping(key: Converter, entries: Mapping[str, Converter], other: Converter) -> Converter:
    """For a mapping whose `entries` have converters of their own."""

    def convert(values: Any) -> Any:
        if not isinstance(values, MAPPING):
            _refuse(values, "a mapping")
        found = {}
        try:
            for name, value in values.items():
                checked = key(name)  # first: of a wrong name, the value does not matter
                found[checked] = entries.get(name, other)(value)
        except ValueError as error:
            raise ValueError(f".{beginning(one_line(name), MAX_PLACE)}{error}") from None
        return found

    return convert


def _dataclass(cls: Any, clean: bool) -> Converter:
    items = {name: converter(hint, clean) for name, hint in get_type_hints(cls, include_extras=True).items()}
    needed = {each.name for each in dataclasses.fields(cls) if each.default is each.default_factory}  # both MISSING

    def convert(values: Any) -> Any:
        if isinstance(values, cls):  # read already, see `record.from_values`
            return values
        if not isinstance(values, MAPPING):
            _refuse(values, "a mapping")
        found: dict[str, Any] = {}
        try:
            for name, value in values.items():
                found[name] = items[name](value)
        except KeyError:
            raise ValueError(f": unknown field {reprlib.repr(name)}") from None
        except ValueError as error:
            raise ValueError(f".{name}{error}") from None
        if len(found) < len(items) and (missing := needed - found.keys()):
            raise ValueError(f": lacks {', '.join(sorted(missing))}")
        try:
            if len(found) < len(items) or hasattr(cls, "__post_init__"):
                return cls(**found)
        except (TypeError, ValueError) as error:
            raise ValueError(f": {error}") from None
        made = object.__new__(cls)  # a frozen class's own `__init__` takes three times as long
        vars(made).update({name: found[name] for name in items})
        return made

    return convert
