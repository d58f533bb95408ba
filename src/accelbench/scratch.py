"""A temporary folder of this process and those below it, which does not outlive them even if they are killed."""

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelbench.errors import UserError
from accelbench.lifeline import end_marked

PREFIX = "accelbench-run-"
# In the environment of a process that uses the folder: `<the folder>/<a name>`.
VARIABLE = "ACCELBENCH_RUN"
# The longest path in which multiprocessing can still make its sockets, `pymp-xxxxxxxx/listener-xxxxxxxx`: Linux allows
# 107 bytes for a socket's path.
MAX_PATH_BYTES = 107 - len("/pymp-xxxxxxxx/listener-xxxxxxxx")


@contextmanager
def folder() -> Iterator[Path]:
    """Gives a new folder in TMPDIR, or in /tmp if TMPDIR's path is too long for a socket; removes it afterwards.

    This process holds a lock on it, which the kernel frees. Folders of this user that nobody holds any more are removed
    first, and processes that still use them are killed. Raises UserError: no folder can be made there.
    """
    name = PREFIX + secrets.token_hex(4)
    base = Path(tempfile.gettempdir()).absolute()
    if len(os.fsencode(base / name)) > MAX_PATH_BYTES:
        base = Path("/tmp")
    _remove_abandoned(base)
    unlocked = base / f".{name}"  # not yet under its name, by which another process would take it for abandoned
    try:
        unlocked.mkdir(mode=0o700)
        held = os.open(unlocked, os.O_RDONLY)
        with contextlib.suppress(OSError):  # a file system without locks: then nobody takes it for abandoned
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
    # Those of this user; links are not followed.
    with contextlib.suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            with contextlib.ExitStack() as stack, contextlib.suppress(OSError):  # held, or another process removes it
                descriptor = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                stack.callback(os.close, descriptor)
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    end_marked(f"{VARIABLE}={entry.path}/")
                    shutil.rmtree(entry.path, ignore_errors=True)
