"""Hydra's and OmegaConf's exceptions -> messages that name the flag and its choices."""

import difflib
import re
from collections.abc import Iterator

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from accelbench.errors import REFUSED, RefusedError, UnknownChoiceError, UserError
from accelbench.schema.setting import declared
from accelbench.settings.config import NAMES, RunConfig

KINDS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}


def user_error_behind(error: BaseException) -> UserError | None:
    """The user's mistake behind `error`: a UserError among its causes, or another error translated into one.

    None if it is a defect of the program.
    """
    chain = list(_chain(error))
    for known in chain:
        if isinstance(known, UserError):
            return known
    for known in chain:
        if isinstance(known, MissingConfigException) and known.missing_cfg_file and known.options:
            group, _, name = known.missing_cfg_file.rpartition("/")
            return UnknownChoiceError(group, name, known.options)
    if isinstance(error, OSError) and error.errno in REFUSED:
        return RefusedError(error)
    if not any(isinstance(known, HydraException | OmegaConfBaseException) for known in chain):
        return None
    return _translated("\n".join(map(str, chain))) or UserError(str(error).split("\n")[0])


def _translated(text: str) -> UserError | None:
    """What the libraries' texts mean, which name the setting in a line of its own."""
    full = re.search(r"full_key: ([\w.]+)", text)
    key = full[1] if full else ""
    if "Ambiguous value" in text:
        found = re.search(r"Ambiguous value for argument '([^']*)'", text)
        return UserError(f"{found[1] if found else 'a setting'}: several values need -m")
    if key and (found := re.search(r"Invalid value '([^']*)', expected one of \[([^]]*)\]", text)):
        return UnknownChoiceError(key.removesuffix(".name"), found[1], map(str.strip, found[2].split(",")))
    of_kind = r"Value '([^']*)' (?:of type .*could not be converted to|is not a valid) (\w+)"
    if key and (found := re.search(of_kind, text)):
        return UserError(f"{key}={found[1]}: should be {KINDS.get(found[2], found[2])}")
    unknown = r"Key '([\w.]+)' (?:is not in struct|not in )", r"Could not override '([\w./@]+)'"
    if found := re.search(unknown[0], text) or re.search(unknown[1], text):
        return UserError(f"{key or found[1]}: unknown setting. {_hint(key or found[1])}")
    found = re.search(r"Error merging override (.*)", text)  # a number for a section, or the other way round
    return UserError(f"{found[1]}: not a value of this setting") if found else None


def _hint(key: str) -> str:
    if "." in key:
        return "`accelbench --cfg job` prints all settings."
    near = [each.path for each in declared(RunConfig) if each.path.endswith(f".{key}")]
    near = near or difflib.get_close_matches(key, NAMES, n=1)
    return f"Did you mean {' or '.join(near)}?" if near else f"Choose from: {', '.join(NAMES)}."


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields the error, then what caused it, and so on; each once, since causes may form a circle."""
    found: list[BaseException] = []
    seen: BaseException | None = error
    while seen is not None and not any(seen is known for known in found):
        yield seen
        found.append(seen)
        seen = seen.__cause__ or seen.__context__
