"""The calls of a sweep that can fail, and how: the other side of shim.c."""

import ctypes
import errno
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("shim.c")
# In the order of shim.c.
ROLES = ("sweep", "host", "forkserver", "cell")
CALLS = (
    *("open", "create", "read", "write", "fsync", "rename", "unlink", "chmod", "mkdir", "truncate", "flock", "fork"),
    *("exec", "pipe", "socket", "bind", "listen", "connect", "accept", "sendmsg", "recvmsg", "outside"),
)
# KILL: the process dies at the call. TORN: it dies when half is written. FULL: the disk is full from then on.
ACTIONS = {"KILL": -1, "TORN": -2, "FULL": -3}
ON_FILES = {
    "open": ("EIO", "EMFILE", "EINTR", "KILL"),
    "create": ("ENOSPC", "EIO", "EMFILE", "EINTR", "KILL", "FULL"),
    "read": ("EIO", "EINTR", "KILL"),
    "write": ("ENOSPC", "EIO", "EINTR", "KILL", "TORN", "FULL"),
    **dict.fromkeys(("fsync", "rename", "mkdir"), ("ENOSPC", "EIO", "KILL")),
    **dict.fromkeys(("unlink", "chmod", "truncate"), ("EIO", "KILL")),
    "flock": ("EIO", "EINTR", "KILL"),
    "exec": ("EMFILE", "KILL"),
    "fork": ("EAGAIN", "KILL"),
    "outside": ("EIO", "EMFILE", "KILL"),
}
ON_PIPES = {
    "read": ("EIO", "EINTR", "KILL"),
    "write": ("EPIPE", "EINTR", "KILL", "TORN"),
    **dict.fromkeys(("pipe", "socket"), ("EMFILE", "KILL")),
    **dict.fromkeys(("bind", "listen"), ("EIO", "KILL")),
    "connect": ("ECONNREFUSED", "EINTR", "KILL"),
    "accept": ("EMFILE", "EINTR", "KILL"),
    "sendmsg": ("EPIPE", "EINTR", "KILL"),
    "recvmsg": ("EMFILE", "EINTR", "KILL"),
}


@dataclass(frozen=True)
class Point:
    """One call of a sweep."""

    role: str  # of the process that makes it
    call: str
    nth: int  # its number among the calls of this name in processes of this role
    target: str  # the file, or what else the call is on

    def __str__(self) -> str:
        return f"{self.role}: {self.call} {self.nth} ({self.target})"

    @property
    def errors(self) -> tuple[str, ...]:
        """How it may fail."""
        return (ON_PIPES if self.target in ("pipe", "socket") else ON_FILES)[self.call]


class State(ctypes.Structure):
    """`struct state` of shim.c."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("role", "call", "nth", "action", "tracing", "fired")),
        ("counts", ctypes.c_int * len(CALLS) * len(ROLES)),
        ("folder", ctypes.c_char * 1024),
        ("log", ctypes.c_char * 1024),
    ]


def write_state(path: Path, folder: Path, log: Path | None = None, fault: "tuple[Point, str] | None" = None) -> None:
    """Writes a new state, which the processes find that start then.

    `folder` is where files are watched; `log` gets a line for each call; `fault` is what fails, and how.
    """
    state = State(folder=str(folder).encode(), log=str(log).encode(), tracing=log is not None)
    if fault is not None:
        point, error = fault
        state.role, state.call, state.nth = ROLES.index(point.role), CALLS.index(point.call), point.nth
        state.action = ACTIONS.get(error) or getattr(errno, error)
    path.with_suffix(".new").write_bytes(bytes(state))
    path.with_suffix(".new").replace(path)  # what still runs keeps the old one


def has_happened(path: Path) -> bool:
    """Whether the fault of the state has happened."""
    return bool(State.from_buffer_copy(path.read_bytes()).fired)


def logged(log: Path, folder: Path) -> list[Point]:
    """The calls that were traced, with targets relative to `folder`."""
    found = []
    for line in log.read_text().splitlines():
        role, call, nth, target = line.split(" ", 3)
        found.append(Point(role, call, int(nth), target.removeprefix(f"{folder}/")))
    return found


def compiled(folder: Path) -> Path:
    """The compiled shim; skips the test where it can't be compiled or preloaded."""
    compiler = next(filter(shutil.which, ("gcc", "cc", "clang")), None)
    if sys.platform != "linux" or compiler is None:
        pytest.skip("a preloaded library makes the calls fail: needs Linux and a C compiler")
    library = folder / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return library
