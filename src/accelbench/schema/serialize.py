"""Typed values <-> JSON: loading, canonical text, digests, and files that are written whole or not at all."""

import contextlib
import errno
import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from accelbench.errors import REFUSED, RefusedError
from accelbench.schema.converters import converter

T = TypeVar("T")
Key = TypeVar("Key")

CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)
FIELDS = "__dataclass_fields__"
LEAVES = {str, int, float, bool, NoneType}
PREFIX, SUFFIX = ".accelbench-", ".tmp"  # of the names of files that are being written
ABANDONED_S = 3600.0  # another process, perhaps on another machine, is still writing a younger one
# Of a file that is read whole. A record of a million single steps (`cell.MAX_STEPS`) has some 120 MB, and a
# plan of a hundred thousand cells 210 MB. What is larger is nothing that accelbench has written.
MAX_MB = 512


def load(cls: type[T], values: Mapping[str, Any], *, clean: bool = False) -> T:
    """The dataclass `cls` from `values`, which are what `dataclasses.asdict` gave or JSON made of it.

    A field that `values` lack takes its default. With `clean`, texts are made safe to show and cut (`text.beginning`).

    Raises ValueError: `values` have an unknown field, lack one without a default, or a value does not fit its type; the
    message begins with the value's path, such as `measurement.blocks[3].seconds`.
    """
    try:
        kind: Any = cls
        loaded: T = converter(kind, clean)(values)
    except ValueError as error:
        raise ValueError(str(error).removeprefix(".").removeprefix(": ")) from None
    return loaded


def load_if_fits(cls: type[T], values: Any) -> T | None:
    """As `load` with `clean`; None if the values do not fit, such as those of another release."""
    with contextlib.suppress(ValueError):
        return None if values is None else load(cls, values, clean=True)
    return None


def changed(value: T, **changes: Any) -> T:
    """As `dataclasses.replace`, in a fifth of the time: no check runs again, and nothing that was cached is dropped."""
    made = object.__new__(type(value))
    vars(made).update(vars(value), **changes)
    return made


def plain(value: Any) -> Any:
    """A dataclass as a mapping, those in its fields and in lists too; the lists of numbers are not copied."""
    if hasattr(value, FIELDS):  # `dataclasses.is_dataclass` takes three times as long
        return {name: part if type(part) in LEAVES else plain(part) for name, part in vars(value).items()}
    is_of_dataclasses = type(value) is list and value and hasattr(value[0], FIELDS)
    return [plain(part) for part in value] if is_of_dataclasses else value


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal texts on every machine."""
    return CANONICAL.encode(value)


def digest(value: object) -> str:
    """The sha256 of `value`'s canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def group_key(value: object) -> str:
    """As `canonical_json`, in a fifth of the time, for comparing values: another release may give another text."""
    import orjson  # here, as in `read_json`

    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # a lone surrogate, or a number of more than 64 bits
        return canonical_json(value)


def group_digest(value: object) -> str:
    """16 hexadecimal digits that stand for `group_key`, where very many are held."""
    return hashlib.sha256(group_key(value).encode()).hexdigest()[:16]


def grouped(items: Iterable[T], key_of: Callable[[T], Key]) -> dict[Key, list[T]]:
    """Key -> the items that have it, in their order."""
    found: dict[Key, list[T]] = {}
    for item in items:
        found.setdefault(key_of(item), []).append(item)
    return found


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[FileIO]:
    """Opens a regular file to be read in large parts. A link to one is followed.

    Raises OSError: there is no such file, or it is a folder, a pipe or a device, on which reading might never end.
    """
    with open(path, "rb", 0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield file


def read_bytes(path: Path) -> bytes:
    """The contents of a file, as `open_regular` opens it.

    Raises:
        OSError: as there, or the file is larger than `MAX_MB`.
        RefusedError: the system does not read the file now: this says nothing about its contents.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_MB << 20:
                raise OSError(errno.EFBIG, f"larger than {MAX_MB} MB", str(path))
            return file.read()
    except OSError as error:
        if error.errno in REFUSED:
            raise RefusedError(error, path) from error
        raise


def is_missing(path: Path) -> bool:
    """Whether there is no such file; a file that can't be looked at is there, and reading it says why."""
    try:
        os.lstat(path)
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False


def sha256_of(path: Path) -> str:
    """The checksum of a file, in hexadecimal digits. Raises OSError, as `open_regular`."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """The JSON in a regular file. Numbers are finite, whole numbers have up to 64 bits, text has no lone surrogates.

    Raises:
        OSError, RefusedError: see `read_bytes`.
        ValueError: the file holds no such JSON, or is nested too deep.
    """
    return loads(read_bytes(path))


def loads(text: bytes) -> Any:
    """The JSON of a text, as `read_json` takes it; in a fifth of the time of `json.loads`."""
    import orjson  # here, since a cell's process imports this module and may lack it

    return orjson.loads(text)


def dumps(value: object, *, indented: bool = False) -> bytes:
    """The JSON of a value, in a tenth of the time of `json.dumps`. Raises TypeError: it has a lone surrogate."""
    import orjson

    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE if indented else None)


def entries_of(path: Path) -> dict[str, Any]:
    """The entries of a JSON file that keeps one for each machine; none if it is missing or holds no such thing.

    Raises RefusedError: see `read_bytes`.
    """
    with contextlib.suppress(OSError, ValueError):
        return load(dict[str, Any], read_json(path))
    return {}


def write_json(path: Path, value: object) -> None:
    """Writes JSON atomically (`writing`): whatever happens, `path` has either its old text or the whole new one."""
    with writing(path) as file:
        # A lone surrogate becomes a question mark: `read_json` would refuse the whole file.
        file.write_text(json_text(value), encoding="utf-8", errors="replace")


def json_text(value: object) -> str:
    """What `write_json` writes."""
    return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"  # `json.dump` takes twice as long


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Gives a file to write instead of `path`, which it replaces, synced, if the block ends without error."""
    # A process that is killed meanwhile leaves a hidden file, which a later call in this folder removes.
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
