"""Where in the user's own code an exception comes from."""

import os
import sysconfig
import traceback
from pathlib import Path

import accelbench

# Code below these folders is Python's, a library's or accelbench's own.
NOT_THE_USERS = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),)
PACKAGE = str(Path(accelbench.__path__[0]))


def is_the_users(path: str) -> bool:
    """Whether the file at `path` is neither Python's, a library's nor accelbench's own."""
    parts = Path(path).parts
    if path.startswith("<") or "site-packages" in parts or "dist-packages" in parts:
        return False
    return not any(Path(path).is_relative_to(folder) for folder in (*NOT_THE_USERS, PACKAGE))


def frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The calls in the user's own files that led to the exception, the innermost last."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if is_the_users(frame.filename)]


def place(error: BaseException) -> str | None:
    """The innermost of these calls, such as `nets.py:12`; None without such a call."""
    found = frames(error)
    return f"{_shown(found[-1].filename)}:{found[-1].lineno}" if found else None


def described(error: BaseException) -> str:
    """The traceback of the calls in the user's own files; the whole one without such calls."""
    if not (calls := frames(error)):
        return "".join(traceback.format_exception(error))
    for call in calls:
        call.filename = _shown(call.filename)
    lines = [*traceback.format_list(calls), *traceback.format_exception_only(error)]
    return "".join(["Traceback (most recent call last):\n", *lines])


def _shown(path: str) -> str:
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path
