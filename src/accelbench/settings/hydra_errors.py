"""Hydra's and OmegaConf's exceptions -> messages that name the flag and its choices."""

import re
from dataclasses import FrozenInstanceError

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from accelbench.errors import REFUSED, RefusedError, UnknownChoiceError, UserError
from accelbench.settings.config import meant
from accelbench.settings.libraries import words_for

KINDS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}


def user_error_behind(error: BaseException) -> UserError | None:
    """The user's mistake behind `error`: a UserError among its causes, or another error translated into one.

    None if it is a defect of the program.
    """
    chain = _chain(error)
    for known in chain:
        if isinstance(known, UserError):
            return known
        if isinstance(known, MissingConfigException) and known.missing_cfg_file and known.options:
            _, group, name = re.split("((?:hydra/)?[^/]+)/", known.missing_cfg_file, maxsplit=1)
            return UnknownChoiceError(group, name, known.options, words_for(name) if group == "model" else None)
    if isinstance(error, FileNotFoundError) and error.filename is None:  # as `os.getcwd` says it
        return UserError("the current folder was removed: change to another one")
    if isinstance(error, OSError) and error.errno in REFUSED:
        return RefusedError(error)
    if not any(isinstance(known, HydraException | OmegaConfBaseException | FrozenInstanceError) for known in chain):
        return None
    return _translated("\n".join(map(str, chain))) or UserError(str(error).split("\n")[0])


def _translated(text: str) -> UserError | None:
    """What the libraries' texts mean, which name the setting in a line of its own."""
    of_key = re.search(r"(.*)\n +full_key: ([\w.-]+)", text)
    problem, key = of_key.groups() if of_key else ("", "")
    if found := re.search(r"Invalid value '([^']*)', expected one of \[([^]]*)\]", text):
        return UnknownChoiceError(key.removesuffix(".name"), found[1], map(str.strip, found[2].split(",")))
    if found := re.search(r"Value '([^']*)' (?:of type .*could not be converted to|is not a valid) (\w+)", text):
        return UserError(f"{key}={found[1]}: should be {KINDS.get(found[2], found[2])}")
    if found := re.search(r"field '([\w.]+)' is not Optional", text):
        return UserError(f"{key or found[1]}: should have a value")
    if re.search(r"Invalid value assigned: \w+ is not a ListConfig", text):
        return UserError(f"{key}: should be a list: '{key}=[3,32,32]'")
    if found := re.search(r"(?:Key|Could not override|cannot assign to field) '([\w./@-]+)'", text):
        name = key or found[1]
        return UserError(f"{name}: unknown setting.{meant(name)} `accelbench --cfg job` prints all settings.")
    if key:
        return UserError(f"{key}: {problem}")
    found = re.search(r"Error merging override (.*)", text)  # a number for a section, or the other way round
    return UserError(f"{found[1]}: not a value of this setting") if found else None


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error, then what caused it, and so on; each once, since causes may form a circle."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
