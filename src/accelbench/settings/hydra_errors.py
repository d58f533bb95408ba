"""Hydra's and OmegaConf's exceptions -> messages that name the flag and its choices."""

import difflib
import re
from collections.abc import Iterator

from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from accelbench.errors import REFUSED, RefusedError, UnknownChoiceError, UserError
from accelbench.schema.setting import declared
from accelbench.settings.config import NAMES, RunConfig


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
    text = "\n".join(str(known) for known in chain)
    if not any(isinstance(known, HydraException | OmegaConfBaseException) for known in chain):
        return None
    if "Ambiguous value" in text:
        return UserError(f"{_ambiguous(text)}: several values need -m")
    translated = _unknown_word(text) or _wrong_type(text) or _unknown_setting(text) or _wrong_kind(text)
    return translated or UserError(str(error).split("\n")[0])


def _ambiguous(text: str) -> str:
    found = re.search(r"Ambiguous value for argument '(?P<word>[^']*)'", text)
    return found["word"] if found else "a setting"


def _unknown_word(text: str) -> UserError | None:
    """Translates an enumeration's error: `Invalid value 'x', expected one of [a, b]`, with the key's name."""
    found = re.search(r"Invalid value '(?P<value>[^']*)', expected one of \[(?P<choices>[^]]*)\]", text)
    key = re.search(r"full_key: (?P<key>[\w.]+)", text)
    if not found or not key:
        return None
    choices = (choice.strip() for choice in found["choices"].split(","))
    return UnknownChoiceError(key["key"].removesuffix(".name"), found["value"], choices)


def _wrong_type(text: str) -> UserError | None:
    """Translates a number's error, `... could not be converted to Integer`, or a bool's, `... is not a valid bool`."""
    found = re.search(
        r"Value '(?P<value>[^']*)' (of type .*could not be converted to|is not a valid) (?P<kind>\w+)", text
    )
    key = re.search(r"full_key: (?P<key>[\w.]+)", text)
    if not found or not key:
        return None
    kinds = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}
    return UserError(f"{key['key']}={found['value']}: should be {kinds.get(found['kind'], found['kind'])}")


def _unknown_setting(text: str) -> UserError | None:
    """Translates an unknown key's error: `Key 'x' is not in struct` or `Key 'x' not in 'RunConfig'`."""
    found = re.search(r"Key '(?P<key>[\w.]+)' (is not in struct|not in )", text) or re.search(
        r"Could not override '(?P<key>[\w./@]+)'", text
    )
    if not found:
        return None
    full = re.search(r"full_key: (?P<key>[\w.]+)", text)
    key = full["key"] if full else found["key"]
    return UserError(f"{key}: unknown setting. {_hint(key)}")


def _hint(key: str) -> str:
    if "." in key:
        return "`accelbench --cfg job` prints all settings."
    near = [each.path for each in declared(RunConfig) if each.path.endswith(f".{key}")]
    near = near or difflib.get_close_matches(key, NAMES, n=1)
    return f"Did you mean {' or '.join(near)}?" if near else f"Choose from: {', '.join(NAMES)}."


def _wrong_kind(text: str) -> UserError | None:
    """Translates the error of a number where a section should be, or of a section where a number should be."""
    found = re.search(r"Error merging override (?P<word>.*)", text)
    return UserError(f"{found['word']}: not a value of this setting") if found else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields the error, then what caused it, and so on; each once, since causes may form a circle."""
    found: list[BaseException] = []
    seen: BaseException | None = error
    while seen is not None and not any(seen is known for known in found):
        yield seen
        found.append(seen)
        seen = seen.__cause__ or seen.__context__
