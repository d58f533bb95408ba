"""Errors that users can correct. `cli.main` prints their message without a traceback, and exits with status 2."""

import argparse
import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# Errors with which the system may stop a correct program: the disk is full or broken, memory or file descriptors ran
# out, permission is missing, a name is too long, or links form a circle.
REFUSED = frozenset(
    {
        *DISK_FULL,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EMFILE,
        errno.ENFILE,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
    }
    | {errno.EIO, errno.ESTALE, errno.ENAMETOOLONG, errno.ELOOP}
)

# A word counts as a misspelling of another if they are at least this similar: about two of three letters.
LIKE = 0.66
MAX_WORD = 60  # characters of a word that are compared


class UserError(Exception):
    """A mistake in the user's request. The message names the flag or the file, and says how to correct the mistake."""


def how_to_install(extra: str) -> str:
    """Returns the command that installs an extra. It works for an installed wheel and for an installed checkout."""
    return f"pip install 'accelbench[{extra}]'"


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """Returns the end of a message about an unknown `word`, with the most similar of the `choices`, if there is one."""
    from difflib import get_close_matches  # not at the top: few runs need it

    near = get_close_matches(str(word)[:MAX_WORD], list(choices), 1, LIKE)
    return f" Did you mean {near[0]}?" if near else ""


class UnknownChoiceError(UserError):
    """A setting has an unknown word as its value. The message lists the possible values."""

    def __init__(self, flag: str, value: object, choices: Iterable[str]) -> None:
        listed = list(choices)
        hint = did_you_mean(value, listed)
        super().__init__(f"{flag}={value}: unknown {flag}.{hint} Choose from: {', '.join(listed)}.")


class WriteError(UserError):
    """A file could not be written."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(
            f"{what}: {'disk full' if error.errno in DISK_FULL else f'not writable ({error.strerror})'}"
        )


@contextmanager
def writing_errors(what: object) -> Iterator[None]:
    """Raises a WriteError with `what` in its message if an OSError is raised inside the context."""
    try:
        yield
    except OSError as error:
        raise WriteError(str(what), error) from error


class RefusedError(UserError):
    """The operating system refused a call, for example because the disk is full. accelbench is not the cause."""

    def __init__(self, error: OSError, path: object = None) -> None:
        is_full = error.errno in DISK_FULL
        where = path or error.filename or ("the output, or a temporary file" if is_full else None)
        problem = "disk full" if is_full else error.strerror
        super().__init__(f"{where}: {problem}" if where else str(problem))


class DataError(UserError):
    """A data source that is missing, incomplete or altered."""


class DownloadError(DataError):
    """A data set that could not be downloaded."""


class ChangedError(UserError):
    """The user's code or data changed during a sweep. The remaining cells would measure something else."""


class UnsupportedError(Exception):
    """This machine or engine can't run the cell. The cell is skipped, and the message says why."""


class InvalidError(UserError):
    """The numbers of a cell are not published: they can't be true, or do not belong to the requested settings."""


class Interrupted(KeyboardInterrupt):  # noqa: N818  # as Python's own
    """The user has interrupted a sweep. `when` says how far it was. `folder` contains the records, if there are any."""

    def __init__(self, when: str, folder: str = "") -> None:
        super().__init__(f"Interrupted{when} {folder}".rstrip())
        self.folder = folder


class Parser(argparse.ArgumentParser):
    """The argument parser of every command. It raises a `UserError` instead of exiting."""

    def __init__(self, **settings: Any) -> None:
        # No abbreviations: a mistyped flag must not set another one.
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raises a UserError with argparse's message."""
        raise UserError(f"{message}. `{self.prog} --help` lists all flags")
