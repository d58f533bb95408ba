"""What each setting is, from its declaration: for `accelbench run --help`, docs/settings.md and shell completion."""

import types
from collections.abc import Iterator
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from accelbench.schema.setting import Declared, declared
from accelbench.settings.config import GROUPS, MISSING, PROFILES, RunConfig

KINDS = {int: "a whole number", float: "a number", str: "a text"}
LIST, MAPPING = "a list", "names with values"


@dataclass(frozen=True, kw_only=True)
class About:
    """A setting as a user meets it."""

    name: str
    meaning: str
    choices: list[str]  # its values, if they are words
    kind: str  # what other values it takes
    default: Any


def every_setting(conf: Path) -> Iterator[About]:
    """Yields all settings: those that choose a file in the folder `conf`, the plain ones, and those of groups."""
    for group, meaning in GROUPS.items():
        files = sorted(path.stem for path in (conf / group).glob("*.yaml"))
        yield About(name=group, meaning=meaning, choices=files, kind="", default=None)
    found = list(declared(RunConfig))
    yield from (_about(each) for each in sorted(found, key=lambda each: "." in each.path))


def _about(setting: Declared) -> About:
    field = setting.field
    default = field.default if field.default_factory is NO_DEFAULT else field.default_factory()
    choices: list[str] = []
    kinds = []
    for part in _parts(setting.kind):
        if isinstance(part, type) and issubclass(part, StrEnum):
            choices += [word.value for word in part]
        elif part is bool:
            choices += ["true", "false"]
        elif part is not type(None):
            kinds.append(KINDS.get(part) or (LIST if get_origin(part) in (list, tuple) else MAPPING))
    return About(
        name=setting.path,
        meaning=setting.said.help,
        choices=list(PROFILES) if setting.path == "profile" else choices,
        kind=" or ".join(kinds),
        default=None if default in (NO_DEFAULT, MISSING) else default,
    )


def _parts(kind: Any) -> Iterator[Any]:
    if get_origin(kind) in (Union, types.UnionType):
        for part in get_args(kind):
            yield from _parts(part)
    else:
        yield get_args(kind)[0] if get_origin(kind) is Annotated else kind
