"""What makes typed values of JSON values, and refuses those that do not fit; `serialize.load` applies it."""

import dataclasses
import functools
import math
import re
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin, get_type_hints, is_typeddict

from accelbench.schema.ranges import MAX_COUNT, Range
from accelbench.schema.text import MAX_TEXT, beginning, one_line
from accelbench.stats.arrays import floats

MAX_PLACE = 60  # characters of a name in an error's path

Converter = Callable[[Any], Any]

FINITE, WHOLE = Range(-sys.float_info.max, sys.float_info.max), Range(-MAX_COUNT, MAX_COUNT)
MAX_DEPTH = 50
LONG = 50  # floats in a list that is checked faster as an array


@functools.cache
def converter(hint: Any, clean: bool) -> Converter:
    """What makes a value of the type `hint` from a JSON value. For one that does not fit it raises a ValueError.

    The error's text is the path of the value, with `.` before a field and `[]` around an index, `: ` and what is wrong.

    Args:
        hint: of a dataclass's field.
        clean: whether texts are made safe to show and cut (`text.beginning`).
    """
    kind, args = get_origin(hint) or hint, get_args(hint)
    if kind is Annotated:
        return _annotated_converter(args[0], args[1], clean)
    if kind in (Union, UnionType):
        (item,) = (converter(arg, clean) for arg in args if arg is not NoneType)
        return lambda value: None if value is None else item(value)
    if hasattr(kind, "__dataclass_fields__"):
        return _dataclass_converter(kind, clean)
    if is_typeddict(kind):
        return _entries_converter(kind, clean)
    if kind is tuple:
        return _tuple_converter(args, clean)
    if kind is list:
        return _list_converter(args[0], clean)
    if args:
        return _mapping_converter(args[0], args[1], clean)
    if issubclass(kind, Enum):
        return _enum_converter(kind)
    simple: dict[Any, Converter] = {Any: _plain_converter(clean), str: _clean_text if clean else _text, bool: _truth}
    return simple.get(kind) or _number_converter(kind, FINITE if kind is float else WHOLE)


def _refuse(value: object, wanted: str) -> NoReturn:
    raise ValueError(f": should be {wanted}, not {reprlib.repr(value)}")


def _locate(parts: Iterable[tuple[str, Converter, Any]]) -> None:
    for place, convert, value in parts:
        try:
            convert(value)
        except ValueError as error:
            raise ValueError(f"{beginning(one_line(place), MAX_PLACE)}{error}") from None


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else _refuse(value, "text")


def _clean_text(value: Any) -> Any:
    # What is printable needs no cleaning; the test is six times as fast.
    return (
        value if isinstance(value, str) and value.isprintable() and len(value) <= MAX_TEXT else beginning(_text(value))
    )


def _truth(value: Any) -> Any:
    return value if isinstance(value, bool) else _refuse(value, "true or false")


def _plain_converter(clean: bool) -> Converter:
    text, number = (_clean_text if clean else _text), _number_converter(float, FINITE)

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


def _enum_converter(kind: type[Enum]) -> Converter:
    members: dict[Any, Enum] = {member.value: member for member in kind}

    def convert(value: Any) -> Any:
        found = members.get(value) if isinstance(value, str) else None
        return found or _refuse(value, f"one of {', '.join(members)}")

    return convert


def _annotated_converter(kind: Any, detail: Any, clean: bool) -> Converter:
    if isinstance(detail, Range):
        return _number_converter(kind, detail)
    if isinstance(detail, re.Pattern):
        fits = detail.fullmatch
        return lambda value: value if isinstance(value, str) and fits(value) else _refuse(value, detail.pattern)
    return converter(detail, clean)


def _number_converter(kind: Any, bounds: Range) -> Converter:
    low, high = bounds.low, bounds.high
    wanted = f"a {'whole ' if kind is int else ''}number from {low:g} to {high:g}"

    def convert(value: Any) -> Any:
        # `type(value)`, since bool is an int. Whole numbers may be written without a point.
        if (type(value) is kind or type(value) is int) and low <= value <= high:
            return value
        return _refuse(value, wanted)

    return convert


def _list_converter(hint: Any, clean: bool) -> Converter:
    item, numbers = converter(hint, clean), _numbers(hint)

    def convert(values: Any) -> Any:
        if not isinstance(values, list | tuple):
            _refuse(values, "a list")
        try:
            if numbers is None or not _fit(values, *numbers):
                return [item(value) for value in values]
        except ValueError:
            _locate((f"[{index}]", item, value) for index, value in enumerate(values))
            raise
        return list(values)

    return convert


def _fit(values: Sequence[Any], kind: type, bounds: Range) -> bool:
    if kind is float and len(values) >= LONG and [*map(type, values)].count(float) == len(values):
        numbers = floats(values)
        return bool(bounds.low <= numbers.min() and numbers.max() <= bounds.high)  # both are NaN if one value is
    if not values or not {kind, int}.issuperset(map(type, values)):
        return False
    # The sum is not a number if one of them is not: `min` and `max` may miss it.
    return bounds.low <= min(values) and max(values) <= bounds.high and not math.isnan(sum(values))


def _numbers(hint: Any) -> tuple[type, Range] | None:
    inner = [arg for arg in get_args(hint) if arg is not NoneType] if get_origin(hint) in (Union, UnionType) else [hint]
    kind, *details = get_args(inner[0]) if get_origin(inner[0]) is Annotated else (None,)
    return next(((kind, detail) for detail in details if isinstance(detail, Range)), None)


def _tuple_converter(hints: tuple[Any, ...], clean: bool) -> Converter:
    items = [converter(hint, clean) for hint in hints if hint is not Ellipsis]
    num = None if Ellipsis in hints else len(items)

    def convert(values: Any) -> Any:
        if not isinstance(values, list | tuple) or num not in (None, len(values)):
            _refuse(values, "a list" if num is None else f"a list of {num}")
        converters = items * len(values) if num is None else items
        try:
            return tuple([convert(value) for convert, value in zip(converters, values, strict=True)])
        except ValueError:
            _locate((f"[{index}]", converters[index], value) for index, value in enumerate(values))
            raise

    return convert


def _mapping_converter(key_hint: Any, hint: Any, clean: bool) -> Converter:
    key, item = converter(key_hint, clean), converter(hint, clean)

    def convert(values: Any) -> Any:
        if not isinstance(values, Mapping):
            _refuse(values, "a mapping")
        try:
            return {key(name): item(value) for name, value in values.items()}
        except ValueError:
            _locate(part for name, value in values.items() for part in (("", key, name), (f".{name}", item, value)))
            raise

    return convert


def _entries_converter(kind: Any, clean: bool) -> Converter:
    entries = {name: converter(hint, clean) for name, hint in get_type_hints(kind, include_extras=True).items()}
    name_of, other = converter(str, clean), converter(Any, clean)

    def convert(values: Any) -> Any:
        if not isinstance(values, Mapping):
            _refuse(values, "a mapping")
        try:
            return {name_of(name): entries.get(name, other)(value) for name, value in values.items()}
        except ValueError:
            _locate((f".{name}", entries.get(name, other), value) for name, value in values.items())
            raise

    return convert


def _dataclass_converter(cls: Any, clean: bool) -> Converter:
    fields = {name: converter(hint, clean) for name, hint in get_type_hints(cls, include_extras=True).items()}
    items, num = tuple(fields.items()), len(fields)
    check = getattr(cls, "__post_init__", None)
    needed = {each.name for each in dataclasses.fields(cls) if each.default is each.default_factory}  # both MISSING

    def convert(values: Any) -> Any:
        if not isinstance(values, dict) and not isinstance(values, Mapping):  # the quick test comes first
            _refuse(values, "a mapping")
        problem: Exception | None = None
        try:
            # In the class's order and with its own names, which a call matches by identity, others by comparing.
            found = {name: convert(values[name]) for name, convert in items if name in values}
            if len(found) == len(values) == num:
                # As pickle makes it. The `__init__` of a frozen class has a call for each field, which took a tenth of
                # the time that reading a record takes.
                made = object.__new__(cls)
                object.__setattr__(made, "__dict__", found)
                if check is not None:
                    check(made)
                return made
            if len(found) == len(values):
                return cls(**found)
        except (TypeError, ValueError) as error:
            problem = error
        if unknown := set(values) - set(fields):
            raise ValueError(f": unknown field {reprlib.repr(min(unknown))}")
        _locate((f".{name}", fields[name], value) for name, value in values.items())
        if missing := needed - set(values):
            raise ValueError(f": lacks {', '.join(sorted(missing))}")
        raise ValueError(f": {problem}")

    return convert
