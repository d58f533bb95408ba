"""Errors of the user. `cli.main` catches them: one message, exit status 2, no traceback."""

from collections.abc import Iterable


class UserError(Exception):
    """A mistake in the user's request. The message names the flag or file, and how to correct it."""


class UnknownChoiceError(UserError):
    """An unknown word for a setting; the message lists the known ones.

    Args:
        flag: the setting as the user writes it, such as `model`.
        value: the unknown word.
        choices: the known words.
    """

    def __init__(self, flag: str, value: object, choices: Iterable[str]) -> None:
        super().__init__(f"{flag}={value}: unknown {flag}. Choose from: {', '.join(choices)}.")


class DataError(UserError):
    """A data source that is missing, incomplete or altered."""


class DownloadError(DataError):
    """A data set that could not be downloaded."""


class BusyError(UserError):
    """Another process holds a lock that this one needs."""


class UnsupportedError(Exception):
    """A cell is not supported on this machine or by its engine; it is skipped with this message as its reason."""
