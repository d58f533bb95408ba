"""What makes typed values of JSON values, and refuses those that do not fit; `serialize.load` applies it.

No library: a cell's process has only its framework, unknown fields are errors, and texts of others are made safe.
"""

import dataclasses
import functools
import math
import re
import reprlib
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin, get_type_hints, is_typeddict

from accelbench.schema.ranges import MAX_COUNT, Range
from accelbench.schema.text import MAX_TEXT, beginning, one_line

MAX_PLACE = 60  # characters of a name in an error's path
MAX_DEPTH = 50
FINITE, WHOLE = Range(-sys.float_info.max, sys.float_info.max), Range(-MAX_COUNT, MAX_COUNT)

Converter = Callable[[Any], Any]


@functools.cache
def converter(hint: Any, clean: bool) -> Converter:
    """What makes a value of the type `hint` from a JSON value. For one that does not fit it raises a ValueError.

    The error's text is the path of the value, with `.` before a field and `[]` around an index, `: ` and what is wrong.
    With `clean`, texts are made safe to show and cut (`text.beginning`).
    """
    kind, args = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        return _annotated(args[0], args[1], clean)
    if kind in (Union, UnionType):
        (item,) = (converter(arg, clean) for arg in args if arg is not NoneType)
        return lambda value: None if value is None else item(value)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, clean)
    if is_typeddict(kind):  # the entries that it declares have their types, others are plain JSON
        entries = {name: converter(each, clean) for name, each in get_type_hints(kind, include_extras=True).items()}
        return _mapping(converter(str, clean), entries, converter(Any, clean))
    if kind is tuple:
        return _tuple(args, clean)
    if kind is list:
        return _list(args[0], clean)
    if args:
        return _mapping(converter(args[0], clean), {}, converter(args[1], clean))
    if issubclass(kind, Enum):
        return _enum(kind)
    simple: dict[Any, Converter] = {Any: _plain(clean), str: _clean_text if clean else _text, bool: _truth}
    return simple.get(kind) or _number(kind, FINITE if kind is float else WHOLE)


def _refuse(value: object, wanted: str) -> NoReturn:
    raise ValueError(f": should be {wanted}, not {reprlib.repr(value)}")


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else _refuse(value, "text")


def _clean_text(value: Any) -> Any:
    # What is printable needs no cleaning; the test is six times as fast.
    is_clean = isinstance(value, str) and value.isprintable() and len(value) <= MAX_TEXT
    return value if is_clean else beginning(_text(value))


def _truth(value: Any) -> Any:
    return value if isinstance(value, bool) else _refuse(value, "true or false")


def _plain(clean: bool) -> Converter:
    """For `Any`: plain JSON, with finite numbers, and not so deep that a recursive function fails."""
    text, number = (_clean_text if clean else _text), _number(float, FINITE)

    def convert(value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            return text(value)
        if value is None or isinstance(value, int):
            return value
        if isinstance(value, float):
            return number(value)
        if depth == MAX_DEPTH:
            _refuse(value, f"nested at most {MAX_DEPTH} deep")
        if isinstance(value, dict):
            return {text(name): convert(item, depth + 1) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [convert(item, depth + 1) for item in value]
        return _refuse(value, "plain JSON")

    return convert


def _enum(kind: type[Enum]) -> Converter:
    members: dict[Any, Enum] = {member.value: member for member in kind}

    def convert(value: Any) -> Any:
        found = members.get(value) if isinstance(value, str) else None
        return found or _refuse(value, f"one of {', '.join(members)}")

    return convert


def _annotated(kind: Any, detail: Any, clean: bool) -> Converter:
    """For `Annotated[kind, detail]`: a range of numbers, a pattern of text, or a more exact type."""
    if isinstance(detail, Range):
        return _number(kind, detail)
    if isinstance(detail, re.Pattern):
        fits = detail.fullmatch
        return lambda value: value if isinstance(value, str) and fits(value) else _refuse(value, detail.pattern)
    return converter(detail, clean)


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
    number = next((arg for arg in get_args(hint) if arg is not NoneType), hint) if _is_union(hint) else hint
    kind, bounds = get_args(number)[:2] if get_origin(number) is Annotated else (None, None)

    def convert(values: Any) -> Any:
        if not isinstance(values, list | tuple):
            _refuse(values, "a list")
        if isinstance(bounds, Range) and _fit(values, kind, bounds):
            return list(values)
        found: list[Any] = []
        try:
            for value in values:
                found.append(item(value))
        except ValueError as error:
            raise ValueError(f"[{len(found)}]{error}") from None
        return found

    return convert


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _fit(values: Sequence[Any], kind: Any, bounds: Range) -> bool:
    """Whether all are numbers within the bounds; faster than a call for each. False also says that it is not known."""
    if not values or not {kind, int}.issuperset(map(type, values)):
        return False
    # The sum is not a number if one of them is not: `min` and `max` may miss it.
    return bounds.low <= min(values) and max(values) <= bounds.high and not math.isnan(sum(values))


def _tuple(hints: tuple[Any, ...], clean: bool) -> Converter:
    """For `tuple[X, ...]`, and for tuples of a fixed length whose items are of one type."""
    items, num = _list(hints[0], clean), None if Ellipsis in hints else len(hints)

    def convert(values: Any) -> Any:
        if num is not None and not (isinstance(values, list | tuple) and len(values) == num):
            _refuse(values, f"a list of {num}")
        return tuple(items(values))

    return convert


def _mapping(key: Converter, entries: Mapping[str, Converter], other: Converter) -> Converter:
    """For a mapping whose `entries` have converters of their own."""

    def convert(values: Any) -> Any:
        if not isinstance(values, Mapping):
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
    hints = get_type_hints(cls, include_extras=True)
    items = [(name, converter(hint, clean)) for name, hint in hints.items()]
    check = getattr(cls, "__post_init__", None)
    needed = {each.name for each in dataclasses.fields(cls) if each.default is each.default_factory}  # both MISSING

    def convert(values: Any) -> Any:
        if not isinstance(values, dict) and not isinstance(values, Mapping):  # the quick test comes first
            _refuse(values, "a mapping")
        found: dict[str, Any] = {}
        try:
            # In the class's order and with its own names, which a call matches by identity, others by comparing.
            for name, of_field in items:
                if name in values:
                    found[name] = of_field(values[name])
        except ValueError as error:
            raise ValueError(f".{name}{error}") from None
        if len(found) < len(values):
            raise ValueError(f": unknown field {reprlib.repr(min(set(values) - set(hints)))}")
        if len(found) < len(items) and (missing := needed - set(found)):
            raise ValueError(f": lacks {', '.join(sorted(missing))}")
        try:
            if len(found) < len(items):
                return cls(**found)
            # As pickle makes it. The `__init__` of a frozen class has a call for each field, which took a tenth of
            # the time that reading a record takes.
            made = object.__new__(cls)
            object.__setattr__(made, "__dict__", found)
            if check is not None:
                check(made)
        except (TypeError, ValueError) as error:
            raise ValueError(f": {error}") from None
        return made

    return convert
