"""Keeps the files of a sweep: none is overwritten unread, and those that vanish meanwhile are written again."""

import os
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path

from accelbench.errors import RefusedError, WriteError
from accelbench.project import shown
from accelbench.schema import record as records
from accelbench.schema.record import Record

Signature = tuple[int, int, int]


class KeptFiles:
    """The files that a sweep has written or found. A cell runs the user's code, which may delete or change them."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[Signature | None, Callable[[], object]]] = {}

    def note(self, path: Path, write: Callable[[], object]) -> None:
        """Remembers the file as it is now; `write` writes it again."""
        self._files[path] = _signature(path), write

    def note_record(self, record: Record, folder: Path) -> None:
        self.note(folder / f"{record.name}.json", partial(records.write, record, folder))

    def restore(self) -> list[Path]:
        """Writes each file again that was deleted or changed since it was noted; returns those files.

        Raises:
            WriteError: a file can't be written.
        """
        lost = {path: write for path, (before, write) in self._files.items() if _signature(path) != before}
        for write in lost.values():
            write()
        return list(lost)


def set_aside(path: Path) -> Path:
    """Renames what is at `path`, and returns its new path, which nothing had.

    Raises:
        WriteError: it can't be renamed.
    """
    names = (f"{path.name}.unreadable{f'-{number}' * (number > 1)}" for number in count(1))
    new = next(each for each in map(path.with_name, names) if not os.path.lexists(each))
    try:
        path.rename(new)
    except OSError as error:
        raise WriteError(shown(path), error) from error
    return new


def read_or_set_aside(paths: Iterable[Path]) -> tuple[list[Record], list[str]]:
    """The readable records, and a line for each file that is no readable record and was set aside.

    Raises:
        RefusedError: the system refused to read a file; the record may be whole.
        WriteError: a file can't be renamed.
    """
    readable = records.read_all(paths)
    found = list(readable)
    for error in readable.refused.values():
        if isinstance(error, RefusedError):
            raise error
    reasons = readable.reasons.items()
    return found, [f"{shown(path)}: {reason}; kept as {set_aside(path).name}" for path, reason in reasons]


def _signature(path: Path) -> Signature | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
