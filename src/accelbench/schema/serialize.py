"""Converts typed values to JSON and back, and computes digests. Files are written whole or not at all.

`load` refuses a number that is outside of the range of its type, such as `Share`. No measured number is near the ends
of its range. If numbers are in range, their rates, sums and ratios are finite.
"""

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from accelbench.schema.secrets import masker
from accelbench.schema.text import beginning, one_line

TICK_S = 1e-9  # the clock counts nanoseconds
MAX_S = 1e9  # about thirty years
MAX_COUNT = 2**63 - 1
MAX_RATE = 1e30
MAX_NUMBER = 1e100
MAX_DEVICES = 100_000

Duration = Annotated[float, Meta(ge=TICK_S, le=MAX_S)]  # seconds of something that takes time
# Seconds of something that may take no time; a clock's reading.
Seconds = Annotated[float, Meta(ge=0.0, le=MAX_S)]
Difference = Annotated[float, Meta(ge=-MAX_S, le=MAX_S)]  # difference of two durations in seconds
Number = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]  # number of any meaning, such as a loss
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
NotNegative = Annotated[float, Meta(ge=0.0, le=sys.float_info.max)]
Positive = Annotated[float, Meta(gt=0.0, le=sys.float_info.max)]
Rate = Annotated[float, Meta(ge=1 / MAX_RATE, le=MAX_RATE)]
Reading = Annotated[float, Meta(ge=-MAX_RATE, le=MAX_RATE)]  # reading of a sensor
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
AtLeastOne = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
Devices = Annotated[int, Meta(ge=1, le=MAX_DEVICES)]

T = TypeVar("T")
Key = TypeVar("Key")

CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
NUMBERS = {float, int, bool, type(None)}
ENUMERATED = {"device", "precision", "stop"}  # entries of a record whose texts are words of `cell`
REMOVED = {"generator"}  # settings of earlier releases that have no effect
PREFIX, SUFFIX = ".accelbench-", ".tmp"  # name of a file while it is being written: its beginning and end
plain = msgspec.to_builtins  # plain JSON values of a dataclass or other typed values; lists are copies
# The JSON of typed values; raises UnicodeEncodeError if a text has a lone surrogate.
dumps = msgspec.json.encode
ABANDONED_S = 3600.0  # age of a hidden file that no process writes any more, not even on another machine


def load(cls: type[T], values: Any, place: str = "") -> T:
    """Converts plain JSON to a value of type `cls`, such as a dataclass.

    A field that `values` lack has its default. A field that the class lacks is ignored, because another release may
    have written it. But a Struct can forbid unknown fields.

    Raises ValueError: a field without a default is missing, a value does not fit its type, or an unknown field is
    forbidden. The message begins with `place` and the path of the value, such as `measurement.blocks[3].seconds`.
    """
    try:
        return msgspec.convert(values, cls)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at ")
        place += path.partition("$")[2].strip("`")
        text = f"{place}: {problem.replace('Expected', 'should be')}"
        raise ValueError(one_line(text).removeprefix(".").removeprefix(": ")) from None


def refuse_unknown(values: Mapping[str, Any], loaded: Mapping[str, Any], place: str) -> None:
    """Raises ValueError if `values` have an entry that `loaded` lacks.

    `loaded` is the JSON of the object that was made from `values`. `REMOVED` settings had only one value.
    """
    for name, value in values.items():
        if name not in loaded and name not in REMOVED:
            raise ValueError(f"{place}: unknown field {name!r}")
        if isinstance(value, dict):
            refuse_unknown(value, loaded[name], f"{place}.{name}")


def safe(value: Any, change: Callable[[str], str] = beginning) -> Any:
    """Applies `change` to each text in the JSON `value`. By default, texts become short and safe to show."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        texts = {}
        for name, inner in value.items():
            key = name if name.isidentifier() else beginning(name)
            of_inner = beginning if key in ENUMERATED else change
            texts[key] = inner if type(inner) in NUMBERS else safe(inner, of_inner)
        return texts
    if isinstance(value, list | tuple) and not set(map(type, value)) <= NUMBERS:
        return [safe(inner, change) for inner in value]
    return value


def without_secrets(value: T) -> T:
    """Replaces secrets in `value` (JSON or a dataclass) by ***. Names and the entries `ENUMERATED` stay unchanged."""
    return msgspec.convert(safe(plain(value), masker()), type(value))


def load_if_fits(cls: type[T], values: Any) -> T | None:
    """Makes `values` safe and loads them. Returns None if they do not fit, for example after a change of release."""
    with contextlib.suppress(ValueError):
        return load(cls, safe(values))
    return None


def changed(value: T, **changes: Any) -> T:
    """Copies `value`, and replaces the fields in `changes`. Checks do not run again. Cached properties stay.

    This takes a fifth of the time of `dataclasses.replace`.
    """
    made = object.__new__(type(value))
    vars(made).update(vars(value), **changes)
    return made


def canonical_json(value: object) -> str:
    """Converts `value` to JSON with sorted keys and without spaces. Equal values give equal texts on every machine.

    Raises ValueError: `value` has a number that is not finite.
    """
    return CANONICAL.encode(value)


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flattens nested settings. Returns a mapping from dotted names to values as JSON."""
    texts: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            texts |= flat(value, f"{prefix}{name}.")
        else:
            texts[prefix + name] = canonical_json(value)
    return texts


def digest(value: object) -> str:
    """The SHA-256 of the canonical JSON of `value`, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def grouped(items: Iterable[T], key_of: Callable[[T], Key]) -> dict[Key, list[T]]:
    """Key -> the items with that key, in their order."""
    groups: dict[Key, list[T]] = {}
    for item in items:
        groups.setdefault(key_of(item), []).append(item)
    return groups


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """Reads JSON from a file. All numbers must be finite, and texts must have no lone surrogates.

    Raises ValueError: the file has other content, or JSON that is nested too deep.
    """
    return loads(path.read_bytes())


def loads(text: bytes) -> Any:
    """Parses JSON five times as fast as `json.loads`. Accepts the same JSON as `read_json`."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def write_json(path: Path, value: object) -> None:
    """Writes JSON atomically (see `writing`): at any time, `path` has the whole old text or the whole new text."""
    with writing(path) as file:
        # A lone surrogate becomes a question mark; otherwise `read_json` would refuse the whole file.
        file.write_text(json_text(value), encoding="utf-8", errors="replace")


def json_text(value: object) -> str:
    """The text that `write_json` writes for plain or typed values."""
    # `json.dump` takes twice as long.
    return json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yields a hidden file to write. If the block ends without error, the file is synced and renamed to `path`."""
    # A killed process leaves its hidden file; a later call in this folder removes it.
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f"{PREFIX}*{SUFFIX}"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > ABANDONED_S:
                left.unlink()
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=PREFIX, suffix=SUFFIX, delete=False) as created:
        file = Path(created.name)
    try:
        yield file
        with file.open("rb") as written:
            os.fsync(written.fileno())
        file.chmod(0o644)
        file.replace(path)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
