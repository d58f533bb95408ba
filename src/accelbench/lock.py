"""File locks. On one machine only one measurement runs at a time, since two would disturb each other."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from accelbench.errors import BusyError


def measuring_lock() -> Path:
    """The lock file of all sweeps on this machine."""
    return Path(tempfile.gettempdir()) / "accelbench-measuring.lock"


def _open(path: Path, for_all_users: bool) -> IO[str]:
    """Opens the file; creates it if it is missing."""
    # With O_EXCL: Linux refuses O_CREAT alone on another user's file in a shared temporary folder.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o666))
        if for_all_users:
            path.chmod(0o666)  # whatever the umask
    return path.open("r+")


@contextlib.contextmanager
def hold(
    path: Path, what: str, waiting: Callable[[str], None] | None = None, *, for_all_users: bool = True
) -> Iterator[None]:
    """Holds the lock `path` inside the context. The kernel frees it if the process ends.

    Args:
        path: the lock file; its text is the holder's process id.
        what: what a holder of this lock does, for messages.
        waiting: called once with a message before waiting for another holder; None: don't wait.
        for_all_users: whether every user of the machine may hold it; else those that the umask lets.

    Raises:
        BusyError: another process holds the lock, and `waiting` is None.
    """
    with _open(path, for_all_users) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = f"{what} (process {file.read().strip() or 'unknown'})"
            if waiting is None:
                raise BusyError(f"{holder} is under way: wait for it to end, or stop it") from None
            waiting(f"Waiting for {holder} to end: two at once would disturb each other.")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield
