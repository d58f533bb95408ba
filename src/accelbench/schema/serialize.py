"""Typed values <-> JSON: loading, canonical text, digests, and files that are written whole or not at all."""

import contextlib
import errno
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from accelbench.errors import REFUSED, RefusedError
from accelbench.schema.secrets import masker
from accelbench.schema.text import beginning, one_line

T = TypeVar("T")
Key = TypeVar("Key")

CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
NUMBERS = {float, int, bool, type(None)}
ENUMERATED = {"device", "precision", "stop", "promise"}  # entries of a record that are words of ours
PREFIX, SUFFIX = ".accelbench-", ".tmp"  # of the names of files that are being written
plain = msgspec.to_builtins  # plain JSON values of a dataclass or other typed values; its lists are copies
dumps = msgspec.json.encode  # the JSON of typed values; it raises UnicodeEncodeError for a lone surrogate
ABANDONED_S = 3600.0  # another process, perhaps on another machine, is still writing a younger one
# Of a file that is read whole. A record of a million single steps (`cell.MAX_STEPS`) has some 120 MB, and a
# plan of a hundred thousand cells 210 MB. What is larger is nothing that accelbench has written.
MAX_MB = 512


def load(cls: type[T], values: Any, place: str = "") -> T:
    """The value of the type `cls`, such as a dataclass, from plain JSON.

    A field that `values` lack takes its default. One that a dataclass lacks is ignored, as of another release.

    Raises ValueError: `values` lack a field without a default, a value does not fit its type, or a Struct that forbids
    unknown fields lacks one; the message begins with the value's path below `place`, such as
    `measurement.blocks[3].seconds`.
    """
    try:
        return msgspec.convert(values, cls)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at ")
        place += path.partition("$")[2].strip("`")
        text = f"{place}: {problem.replace('Expected', 'should be')}"
        raise ValueError(one_line(text).removeprefix(".").removeprefix(": ")) from None


def refuse_unknown(values: Mapping[str, Any], known: Mapping[str, Any], place: str) -> None:
    """Raises a ValueError if `values` have an entry that `known`, the JSON of what was made of them, lacks."""
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"{place}: unknown field {name!r}")
        if isinstance(value, dict):
            refuse_unknown(value, known[name], f"{place}.{name}")


def safe(value: Any, change: Callable[[str], str] = beginning) -> Any:
    """The JSON with texts that are safe to show, and cut (`text.beginning`); or changed otherwise."""
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
    """JSON or a dataclass with `masked` texts, nested ones too, but not names and the entries `ENUMERATED`."""
    return msgspec.convert(safe(plain(value), masker()), type(value))


def load_if_fits(cls: type[T], values: Any) -> T | None:
    """As `load`, of `safe` values; None if they do not fit, as after a change of release."""
    with contextlib.suppress(ValueError):
        return load(cls, safe(values))
    return None


def changed(value: T, **changes: Any) -> T:
    """As `dataclasses.replace`, in a fifth of the time: no check runs again, and nothing that was cached is dropped."""
    made = object.__new__(type(value))
    vars(made).update(vars(value), **changes)
    return made


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal texts on every machine.

    Raises ValueError: it has a number that is not finite.
    """
    return CANONICAL.encode(value)


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings by their dotted names, each value as JSON."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = canonical_json(value)
    return found


def digest(value: object) -> str:
    """The sha256 of `value`'s canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def grouped(items: Iterable[T], key_of: Callable[[T], Key]) -> dict[Key, list[T]]:
    """Key -> the items that have it, in their order."""
    groups: dict[Key, list[T]] = {}
    for item in items:
        groups.setdefault(key_of(item), []).append(item)
    return groups


def open_regular(path: Path) -> FileIO:
    """Opens a regular file to be read in large parts. A link to one is followed.

    Raises OSError: there is no such file, or it is a folder, a pipe or a device, on which reading might never end.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.open("rb", buffering=0)


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
    """The JSON in a regular file. Numbers are finite, text has no lone surrogates.

    Raises:
        OSError, RefusedError: see `read_bytes`.
        ValueError: the file holds no such JSON, or is nested too deep.
    """
    return loads(read_bytes(path))


def loads(text: bytes) -> Any:
    """The JSON of a text, as `read_json` takes it, in a fifth of the time of `json.loads`."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def entries_of(path: Path) -> dict[str, dict[str, Any]]:
    """The entries of a JSON file that keeps one for each machine; none if it is missing or holds no such thing.

    Raises RefusedError: see `read_bytes`.
    """
    with contextlib.suppress(OSError, ValueError):
        return load(dict[str, dict[str, Any]], read_json(path))
    return {}


def write_json(path: Path, value: object) -> None:
    """Writes JSON atomically (`writing`): whatever happens, `path` has either its old text or the whole new one."""
    with writing(path) as file:
        # A lone surrogate becomes a question mark: `read_json` would refuse the whole file.
        file.write_text(json_text(value), encoding="utf-8", errors="replace")


def json_text(value: object) -> str:
    """What `write_json` writes of plain or typed values."""
    # `json.dump` takes twice as long
    return json.dumps(plain(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


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
