"""Errors that a user can mend. `cli.main` catches them once: one message, exit code 2, no traceback."""

from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the user asked for; the message names the flag or file and what mends it."""


class UnknownChoiceError(UserError):
    """A word that is none of the choices.

    Args:
        flag: the setting as the user writes it, such as `model`.
        value: what the user wrote.
        choices: the words that would have been right.
    """

    def __init__(self, flag: str, value: object, choices: Iterable[str]) -> None:
        super().__init__(f"{flag}={value}: unknown {flag}. Choose from: {', '.join(choices)}.")


class DataError(UserError):
    """A data source that is missing, incomplete or altered."""


class DownloadError(DataError):
    """A data set that could not be fetched."""


class BusyError(UserError):
    """Another run holds what this one needs."""


class UnsupportedError(Exception):
    """What a cell asks for does not run here; the cell is skipped with this reason."""
