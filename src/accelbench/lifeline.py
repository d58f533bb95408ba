"""Ends processes and removes their temporary folder if the process that started them ends or is killed."""

import contextlib
import ctypes
import fcntl
import multiprocessing as mp
import os
import secrets
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from pathlib import Path

from accelbench.errors import UserError

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
MARKED_S, MARKED_POLL_S = 5.0, 0.01


def end_with_parent() -> None:
    """Makes the kernel send SIGTERM to this process when its parent process ends."""
    # Otherwise the sweep of a killed `make repro` would continue unseen and block the next sweep.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def ending_as_ctrl_c() -> Iterator[None]:
    """Makes SIGTERM raise KeyboardInterrupt inside the context. Works only in the main thread."""
    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            stack.callback(
                signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, signal.default_int_handler)
            )
        yield


def adopt_orphans() -> None:
    """Makes this process a "child subreaper" of Linux: the new parent of each descendant whose parent ends.

    If a nearer ancestor of the descendant is a child subreaper, that ancestor becomes the parent instead.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_starter(end: Callable[[], None]) -> None:
    """Starts a thread that calls `end` after the process that started this one by multiprocessing has ended."""
    # The kernel's signal does not help here: the parent of this process is the forkserver, not the starter.
    starter = mp.parent_process()
    assert starter is not None, "not started through multiprocessing"

    def watch() -> None:
        connection.wait([starter.sentinel])
        end()

    threading.Thread(target=watch, daemon=True).start()


def end_marked(mark: str) -> None:
    """Kills every process whose environment contains `mark`. Returns when none is left, or after `MARKED_S`.

    Processes inherit their environment. Therefore orphans are also killed. This function reads the environments of all
    processes on the machine, which takes milliseconds.
    """
    deadline = time.monotonic() + MARKED_S
    has_found = True
    while has_found and time.monotonic() < deadline:
        has_found = False
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if mark.encode(errors="surrogateescape") in path.read_bytes():
                    has_found = True
                    os.kill(int(path.parent.name), signal.SIGKILL)
        if has_found:
            time.sleep(MARKED_POLL_S)


PREFIX = "accelbench-run-"
# The environment of a process that uses the folder contains `<the folder>/<a name>`.
RUN_VARIABLE = "ACCELBENCH_RUN"
# The longest path in which multiprocessing can still make its sockets, `pymp-xxxxxxxx/listener-xxxxxxxx`: Linux allows
# 107 bytes for a socket's path.
MAX_PATH_BYTES = 107 - len("/pymp-xxxxxxxx/listener-xxxxxxxx")


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yields a new temporary folder for this process and its children. Removes the folder at the end of the context.

    The folder is in TMPDIR, or in /tmp if TMPDIR's path is too long for a socket. This process locks the folder. If the
    process is killed, the kernel unlocks the folder. The next call of this function removes all unlocked folders of the
    user, and kills the processes that still use them. Raises UserError if no folder can be made.
    """
    name = PREFIX + secrets.token_hex(4)
    base = Path(tempfile.gettempdir()).absolute()
    if len(os.fsencode(base / name)) > MAX_PATH_BYTES:
        base = Path("/tmp")
    _remove_abandoned(base)
    unlocked = base / f".{name}"  # hidden until it is locked: otherwise another process would remove it
    try:
        unlocked.mkdir(mode=0o700)
        held = os.open(unlocked, os.O_RDONLY)
        with contextlib.suppress(OSError):  # the file system has no locks; then no folder is removed either
            fcntl.flock(held, fcntl.LOCK_EX)
        path = unlocked.rename(base / name)
    except OSError as error:
        raise UserError(f"TMPDIR={base}: no folder can be made there ({error.strerror})") from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(held)


def _remove_abandoned(base: Path) -> None:
    # Removes only folders of this user, and follows no links.
    with contextlib.suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            # An error here means that the folder is in use, or being removed.
            with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
                descriptor = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                stack.callback(os.close, descriptor)
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    end_marked(f"{RUN_VARIABLE}={entry.path}/")
                    shutil.rmtree(entry.path, ignore_errors=True)
