"""Errors of the user. `cli.main` catches them: one message, exit status 2, no traceback."""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# What the system may refuse to a program without a defect: room, memory, open files, permissions, a working disk, a
# name that is too long, links in a circle.
REFUSED = frozenset(
    {*DISK_FULL, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.EROFS}
    | {errno.EIO, errno.ESTALE, errno.ENAMETOOLONG, errno.ELOOP}
)


class UserError(Exception):
    """A mistake in the user's request. The message names the flag or file, and how to correct it."""


class UnknownChoiceError(UserError):
    """An unknown word for a setting; the message lists the known ones."""

    def __init__(self, flag: str, value: object, choices: Iterable[str]) -> None:
        super().__init__(f"{flag}={value}: unknown {flag}. Choose from: {', '.join(choices)}.")


class WriteError(UserError):
    """A file could not be written."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(f"{what}: {'disk full' if error.errno in DISK_FULL else f'not writable ({error.strerror})'}")


@contextmanager
def writing_errors(what: object) -> Iterator[None]:
    """Raises a WriteError, which names `what` is written, where the system refuses it."""
    try:
        yield
    except OSError as error:
        raise WriteError(str(what), error) from error


class RefusedError(UserError):
    """The system refused a call, for a reason that is no defect of accelbench."""

    def __init__(self, error: OSError, path: object = None) -> None:
        where = path or error.filename
        problem = "disk full" if error.errno in DISK_FULL else error.strerror
        super().__init__(f"{where}: {problem}" if where else str(problem))


class DataError(UserError):
    """A data source that is missing, incomplete or altered."""


class DownloadError(DataError):
    """A data set that could not be downloaded."""


class BusyError(UserError):
    """Another process holds a lock that this one needs."""


class UnsupportedError(Exception):
    """A cell is not supported on this machine or by its engine; it is skipped with this message as its reason."""


class InvalidError(UserError):
    """What was measured is not what was asked for, or can't be true: its numbers are not published."""
