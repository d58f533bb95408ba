"""Locks: one on a file, and one for all measurements on the machine. If a process ends, the kernel frees its locks."""

import contextlib
import errno
import fcntl
import math
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from accelbench.errors import UserError

# An environment variable with the name of the lock. Sweeps with different names do not wait for each other.
VARIABLE = "ACCELBENCH_LOCK"
RETRY_S = 0.2


@contextlib.contextmanager
def hold_measuring(waiting: Callable[[str], None], patience_s: float | None = None) -> Iterator[None]:
    """Waits until the lock for all measurements on this machine is free. Holds the lock inside the context.

    The lock is the name of an abstract Unix socket. A process holds the lock while its socket has this name. All users
    share this lock, even jobs with their own TMPDIR, and containers on the machine's network. A container with its own
    network has its own lock.

    A process that measures nothing may take the name, too. Therefore the message contains the holder's process id. The
    environment variable `VARIABLE` selects another name, so that the user need not wait for such a process.

    Args:
        waiting: called with a message before the wait.
        patience_s: the longest wait; None if there is no limit.

    Raises UserError if the lock is not free after `patience_s`.
    """
    # The name of a socket has at most 107 bytes.
    address = f"\0accelbench-measuring-{os.environ.get(VARIABLE, '')[-80:]}"
    patience_s = math.inf if patience_s is None else patience_s
    began_s = time.monotonic()
    is_told = False
    with socket.socket(socket.AF_UNIX) as server:
        while not _bind(server, address):
            if time.monotonic() - began_s >= patience_s:
                raise UserError(
                    f"another measurement ({_holder(address)}) still runs after {patience_s:.0f} s"
                )
            if not is_told:
                holder = _holder(address)
                waiting(
                    f"Waiting for another measurement ({holder}) to end. Two at once would disturb each other. If that"
                    f" process measures nothing, set {VARIABLE}=mine for another lock."
                )
                is_told = True
            time.sleep(RETRY_S)
        server.listen(socket.SOMAXCONN)
        yield


def _bind(server: socket.socket, address: str) -> bool:
    try:
        server.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise UserError(
            f"the lock of this machine's measurements can't be taken ({error.strerror})"
        ) from error
    return True


def _holder(address: str) -> str:
    """Returns the lock's holder, such as `process 42`.

    The id is `unknown` if the holder does not listen yet or has ended, or if it runs in another container.
    """
    with socket.socket(socket.AF_UNIX) as client:
        with contextlib.suppress(OSError):
            client.connect(address)
        pid, *_ = struct.unpack(
            "3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
    return f"process {pid or 'unknown'}"


@contextlib.contextmanager
def hold(path: Path, what: str, *, patience_s: float = 0.0) -> Iterator[None]:
    """Holds a lock on the file `path` inside the context. Writes the process id of the holder to the file.

    Args:
        what: what the holder of this lock does, for messages.
        patience_s: the longest wait for another process that holds the lock.

    Raises UserError if another process holds the lock after this wait. Raises UserError if `path` exists, but is a link
    or no file.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UserError(f"{path}: not a file, so it can't be locked: move it away")
    with path.open("a+") as file:
        file.seek(0)
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    holder = f"{what} (process {file.read().strip() or 'unknown'})"
                    raise UserError(f"{holder} is under way: wait for it to end, or stop it") from error
                time.sleep(RETRY_S)
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield
