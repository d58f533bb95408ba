"""Errors of the user. `cli.main` catches them: one message, exit status 2, no traceback."""

import argparse
import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# What the system may refuse to a program without a defect: room, memory, open files, permissions, a working disk, a
# name that is too long, links in a circle.
REFUSED = frozenset(
    {*DISK_FULL, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.EROFS}
    | {errno.EIO, errno.ESTALE, errno.ENAMETOOLONG, errno.ELOOP}
)

LIKE = 0.66  # how much of two words is the same where one is taken for a slip of the other: two of three letters
MAX_WORD = 60  # characters of it that are looked at
# What other tools call it -> our word, of a setting or a value.
OTHER_WORDS = dict(
    re.findall(
        r"(\S+)=(\S+)",
        "cuda=gpu float16=fp16 half=fp16 16=fp16 16-mixed=fp16_mixed bfloat16=bf16 bf16-mixed=bf16_mixed float32=fp32 "
        "float=fp32 32=fp32 float64=fp64 double=fp64 64=fp64 tensorflow=keras onnx=onnxruntime batch=batch_size "
        "dtype=precision lr=model.learning_rate optimizer=model.optimizer dataset=data serving=server",
    )
)


class UserError(Exception):
    """A mistake in the user's request. The message names the flag or file, and how to correct it."""


def how_to_install(extra: str) -> str:
    """The command that installs an extra beside accelbench, which pip finds installed: from its checkout or a wheel."""
    return f"pip install 'accelbench[{extra}]'"


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: ` Did you mean cnn?`; empty if no known one is like it."""
    from difflib import get_close_matches  # here, since few runs meet a mistake

    text = str(word)[:MAX_WORD].lower()
    choices = list(known)
    ours = OTHER_WORDS.get(text.partition(":")[0])  # of cuda:0, too
    if ours in choices:
        return f" Did you mean {ours}?"
    near = get_close_matches(text, choices, cutoff=LIKE)
    # The first is the nearest, but letters in another order are the likeliest slip: `modle` is model, and not mode.
    best = max(near, key=lambda each: sorted(each) == sorted(text), default=None)
    return "" if best in (None, word) else f" Did you mean {best}?"


class UnknownChoiceError(UserError):
    """An unknown word for a setting; the message lists the known ones."""

    def __init__(self, flag: str, value: object, choices: Iterable[str], meant: str | None = None) -> None:
        known = list(choices)
        hint = f" Did you mean {meant}?" if meant else did_you_mean(value, known)
        super().__init__(f"{flag}={value}: unknown {flag}.{hint} Choose from: {', '.join(known)}.")


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
        is_full = error.errno in DISK_FULL
        where = path or error.filename or ("the output, or a temporary file" if is_full else None)
        problem = "disk full" if is_full else error.strerror
        super().__init__(f"{where}: {problem}" if where else str(problem))


class DataError(UserError):
    """A data source that is missing, incomplete or altered."""


class DownloadError(DataError):
    """A data set that could not be downloaded."""


class ChangedError(UserError):
    """The user's code or data were changed while a sweep runs: what is left of it would be of something else."""


class BusyError(UserError):
    """Another process holds a lock that this one needs."""


class UnsupportedError(Exception):
    """A cell is not supported on this machine or by its engine; it is skipped with this message as its reason."""


class InvalidError(UserError):
    """What was measured is not what was asked for, or can't be true: its numbers are not published."""


class Interrupted(KeyboardInterrupt):  # noqa: N818  # as Python's own
    """The user has ended a sweep, with records in `folder`, empty if there are none; `when` says which there are."""

    def __init__(self, when: str, folder: str = "") -> None:
        super().__init__(f"Interrupted{when} {folder}".rstrip())
        self.folder = folder


class Parser(argparse.ArgumentParser):
    """The parser of every command's words, which raises a `UserError` instead of exiting."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)  # a mistyped flag must not run another one

    def error(self, message: str) -> NoReturn:
        """Raises a UserError of argparse's message, with the choices, or the flag that an unknown one is like."""
        if choice := re.search(r"argument ([^\s/]+)\S*: invalid choice: '?(.*?)'? \(choose from (.*)\)", message):
            raise UnknownChoiceError(choice[1], choice[2], re.findall(r"[\w-]+", choice[3]))
        if number := re.search(r"argument (\S+): invalid (int|float) value: '(.*)'", message):
            kind = "whole number" if number[2] == "int" else "number"
            raise UserError(f"{number[1]} {number[3][:MAX_WORD]}: should be a {kind}")
        flag = re.search(r"unrecognized arguments: (\S+)", message)
        meant = did_you_mean(flag[1], self._option_string_actions) if flag else ""
        raise UserError(f"{message}.{meant} `{self.prog} --help` shows what there is")
