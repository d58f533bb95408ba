"""Replaces a folder as a whole: whatever happens, either the old one or the whole new one is kept."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelbench.errors import DataError
from accelbench.lock import hold
from accelbench.project import resolved


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives an empty folder to fill, which replaces `path` if the block ends without an error.

    One folder can't be renamed over another in one step, so for a moment `path` does not exist. If the process is
    killed then, the next call restores the old folder.

    Raises:
        BusyError: another process is replacing the same folder.
        DataError: the folder can't be written.
    """
    path = resolved(path)
    new, old = (path.with_name(f".{path.name}.{word}") for word in ("new", "old"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold(path.with_name(f".{path.name}.lock"), f"{path}: another process that prepares it"):
            _recover(path, new, old)
            if path.exists() and not path.is_dir():
                raise DataError(f"{path}: a file is in the way; move it")
            new.mkdir()
            try:
                yield new
                _swap(path, new, old)
            finally:
                _recover(path, new, old)
    except OSError as error:
        raise DataError(f"{path}: not written ({error})") from error


def _recover(path: Path, new: Path, old: Path) -> None:
    if old.exists() and not path.exists():
        old.rename(path)
    for leftover in (new, old):
        if leftover.exists():
            shutil.rmtree(leftover)


def _swap(path: Path, new: Path, old: Path) -> None:
    for file in [*new.rglob("*"), new]:
        _sync(file)
    if path.exists():
        path.rename(old)
    new.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
