"""Settings of a Python call as the words of the command line."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from accelbench.errors import UserError

MULTIRUN = ("-m", "--multirun")
PLAIN = re.compile(r"[A-Za-z_./][\w./:@+-]*", re.ASCII)  # a text that Hydra takes as it is
OF_NO_MODULE = "__main__."


def words_of(settings: str | Sequence[str], values: Mapping[str, Any]) -> list[str]:
    """The words of the command line for a call of `run`, which says what its arguments mean.

    Raises:
        UserError: a word is a flag other than -m, a text is not readable as words, or a value has no word.
    """
    try:
        words = shlex.split(settings) if isinstance(settings, str) else list(settings)
    except ValueError as error:
        raise UserError(f"{settings}: not readable as words ({error})") from error
    for word in words:
        if word.startswith("-") and word not in MULTIRUN:
            raise UserError(f"{word}: a flag of the command line; run takes settings, such as batch_size=32")
    given = []
    for name, value in values.items():
        axis = value if isinstance(value, list) else [value]
        if not axis:
            raise UserError(f"{name}=[]: an axis needs at least one value")
        given.append(f"{name}={','.join(_word(name, each) for each in axis)}")
    for word in [*words, *given]:
        name, _, text = word.partition("=")
        if OF_NO_MODULE in text:
            raise UserError(
                f"{name}: {text} is defined in the session itself, which a cell's process can't import: put it into a "
                "module of its own, or measure the object that you have with accelbench.measure(model, batch)"
            )
    has_axis = any(isinstance(value, list) for value in values.values())
    return ["-m"] * (has_axis and not set(MULTIRUN) & set(words)) + words + given


def _word(name: str, value: Any) -> str:
    """The value in Hydra's grammar."""
    if value is None:
        return "null"
    if isinstance(value, Enum):
        return _word(name, value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str | Path):
        text = str(value)
        if PLAIN.fullmatch(text) and text.lower() not in ("null", "true", "false", "nan", "inf"):
            return text
        from accelbench.settings.suites import PATHS, quoted  # it imports Hydra

        return text if name in PATHS else quoted(text)  # the command line quotes paths itself
    if isinstance(value, tuple | list):
        return f"[{','.join(_word(name, each) for each in value)}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{_word(name, each)}' for key, each in value.items())}}}"
    if isinstance(value, type | Callable):
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(value, "item"):  # a number of NumPy's or of a tensor
        return _word(name, value.item())
    raise UserError(
        f"{name}: a {type(value).__name__} is no setting; use a text, a number, a tuple of these, or a list as an axis"
    )
