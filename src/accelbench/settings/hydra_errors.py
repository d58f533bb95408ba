"""Translates exceptions of Hydra and OmegaConf into messages that name the setting and its choices."""

import re
from dataclasses import FrozenInstanceError

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from accelbench.errors import REFUSED, RefusedError, UnknownChoiceError, UserError
from accelbench.settings.config import LISTED

KINDS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}


def user_error_behind(error: BaseException) -> UserError | None:
    """Returns the UserError that caused `error`. If no UserError caused it, translates `error` into one.

    It translates errors of Hydra and OmegaConf. It also translates errors of the system: the current folder is gone, or
    the system refuses to read a file. Returns None for any other error, which is a defect of accelbench.
    """
    chain = _chain(error)
    for cause in chain:
        if isinstance(cause, UserError):
            return cause
        if isinstance(cause, MissingConfigException) and cause.missing_cfg_file and cause.options:
            _, group, name = re.split("((?:hydra/)?[^/]+)/", cause.missing_cfg_file, maxsplit=1)
            more = [f"a library's network, such as torchvision model.name={name}"] if group == "model" else []
            return UnknownChoiceError(group, name, [*cause.options, *more])
    if isinstance(error, FileNotFoundError) and error.filename is None:  # `os.getcwd` raised it
        return UserError("the current folder was removed: change to another folder")
    if isinstance(error, OSError) and error.errno in REFUSED:
        return RefusedError(error)
    if not any(isinstance(cause, HydraException | OmegaConfBaseException | FrozenInstanceError) for cause in chain):
        return None
    return _translated("\n".join(map(str, chain))) or UserError(str(error).split("\n")[0])


def _translated(text: str) -> UserError | None:
    """Translates `text`, the message of Hydra or OmegaConf. Returns None if the text is of an unknown kind."""
    of_key = re.search(r"(.*)\n +full_key: ([\w.-]+)", text)
    problem, key = of_key.groups() if of_key else ("", "")
    if match := re.search(r"Invalid value '([^']*)', expected one of \[([^]]*)\]", text):
        return UnknownChoiceError(key.removesuffix(".name"), match[1], match[2].split(", "))
    wrong = r"Value '?(.*?)'?(?: \(list\))? (?:of type .*not be converted to|is not a valid(?: input for)?) \W?(\w+)"
    if match := re.search(wrong, text):
        kind = KINDS.get(match[2], "one value")
        return UserError(f"{key}={match[1]}: should be {kind}. `accelbench run --help {key}` explains it.")
    if match := re.search(r"(?:Key|Could not override|cannot assign to field) '([\w./@-]+)'", text):
        return UserError(f"{key or match[1]}: unknown setting.{LISTED}")
    return UserError(f"{key}: {problem}") if key else None


def _chain(error: BaseException | None) -> list[BaseException]:
    """Lists the error, its cause, the cause of its cause, and so on. Causes may form a circle: none is listed twice."""
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes
