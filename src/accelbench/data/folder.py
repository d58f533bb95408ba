"""Replaces a folder as a whole: whatever happens, a complete one is kept."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelbench.errors import DataError
from accelbench.lock import hold


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives an empty folder to fill; it takes the place of `path` when the block ends without an error.

    A folder can't be renamed over another in one step, so there is a moment when the earlier one is out of the way and
    the new one not in place; the next start mends what a kill leaves in it.

    Raises:
        BusyError: another process is replacing the same folder.
        DataError: the disk refuses.
    """
    path = path.resolve()
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
    """Puts the earlier folder back where it is out of the way and nothing has taken its place; clears the rest."""
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
    """Has the kernel put a file, or a folder's list of files, onto the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
