"""Translates the words of a command line, and the lines of a suite in params.yaml, into Hydra's syntax."""

import math
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, product
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from msgspec import Struct

from accelbench.errors import MAX_WORD, UnknownChoiceError, UserError
from accelbench.project import PARAMS
from accelbench.schema.serialize import load as typed
from accelbench.settings.config import GROUPS, LISTS, NAMES, Profile, check_known
from accelbench.settings.params import Params

# Settings of a whole sweep, which can't have several values.
NOT_AXES = {"suite", "tracking", "profile", "out", "retry", "quiet_s", "verbose"}
AXES = [name for name in NAMES if name not in NOT_AXES]
# Arguments of the user's own code, and options of sbatch.
ARGUMENTS = ("model.args.", "model.batch_args.", "data.args.", "executor.slurm.additional_parameters.")
PATHS = ("out", "data.root")  # settings that are paths
# Settings that are paths, and may have several values.
AXES_OF_PATHS = ("data.path", "model.weights", "python")
NO_SUITE = "adhoc"
QUOTES = "'\""
# A slip of the keyboard must not fill the memory.
MAX_CELLS = 10_000  # of a sweep; composing a cell takes some 5 ms


class Line(list[str]):
    """Words such as `model=mlp,cnn device=cpu`. They ask for each combination of their values.

    `of_profile` names the settings that only the profile of params.yaml sets.
    """

    def __init__(self, words: Iterable[str], of_profile: Collection[str] = ()) -> None:
        super().__init__(words)
        self.of_profile = of_profile


class Suite(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A suite of params.yaml. For each profile, it has a list of command lines."""

    data: str  # its data set
    title: str | None = None
    study: str | None = None
    always: str | None = None  # words that are added to each line
    quick: list[str] = []
    full: list[str] = []
    # Settings that replace settings of the lines, for `dvc exp run -S`.
    override: dict[str, Any] | None = None


def lines_in(words: Sequence[str], params: Params) -> list[Line]:
    """Returns the lines of the suite that `words` name. If they name no suite, returns `words` as the only line.

    If several places set a setting, the first of these places is used: `words`, the suite's `override`, the line,
    `always`, the profile.

    Raises UserError if the suite or the profile is unknown, or if the suite is malformed. The message names the line
    and the word.
    """
    values = given_in(words)
    profile = values.get("profile") or params.profile
    name = values.get("suite", NO_SUITE)
    if profile not in list(Profile):
        raise UnknownChoiceError("profile", profile, Profile)
    if name == NO_SUITE:
        if "profile" in values:
            raise UserError(
                f"profile={profile}: chooses among the lines of a suite, but no suite is named: add -m suite=NAME. "
                f"For all suites, type `dvc exp run report -S profile={profile}`"
            )
        return [Line(words)]
    if not params.suites:
        raise UserError(
            f"suite={name}: found no {PARAMS} with suites in this folder or above it: type `accelbench init` to make a "
            "project with suites"
        )
    if name not in params.suites:
        raise UnknownChoiceError("suite", name, params.suites)
    suite = read_suite(params, name)
    flag = f"{PARAMS}: suites.{name}"
    texts = suite.quick if profile == Profile.quick else suite.full
    if not texts:
        raise UserError(f"{flag}.{profile}: should be a list of lines, such as [model=mlp,cnn device=cpu]")
    settings = {"data": f"data={suite.data}", "profile": f"profile={profile}"}
    of_profile = _words(params.profiles.get(Profile(profile)), f"{PARAMS}: profiles.{profile}")
    settings |= of_profile
    always = _words(suite.always, f"{flag}.always")
    override = _in_line(_overrides(suite.override or {}), f"{flag}.override")
    override |= {parse(word).key_or_group: word for word in words}
    lines = []
    for number, text in enumerate(texts, start=1):
        where = f"{flag}.{profile}, line {number}"
        of_line = always | _words(text, where) | override
        words = with_arguments_added([*map(readable, (settings | of_line).values())])
        lines.append(Line(words, of_profile.keys() - of_line.keys()))
    return lines


def read_suite(params: Params, name: str) -> Suite:
    """Reads the suite `name`. Raises UserError if it has unknown keys, or values of a wrong type."""
    try:
        return typed(Suite, params.suites[name], f"suites.{name}")
    except ValueError as error:
        keys = ", ".join(Suite.__struct_fields__)
        raise UserError(
            f"{PARAMS}: {error}. A suite may have the keys {keys}. Each line of a profile, such as quick, "
            "has settings in the form of a command line: `quick: [model=mlp,cnn device=cpu]` (docs/sweeps.md)"
        ) from error


def _words(text: str | None, where: str) -> dict[str, str]:
    """Maps each setting in a line of params.yaml to its word. Raises UserError if the line is malformed."""
    try:
        words = shlex.split(text or "")
    except ValueError as error:
        raise UserError(f"{where}: {text}: not readable as words ({error})") from error
    return _in_line(words, where)


def _in_line(words: Iterable[str], where: str) -> dict[str, str]:
    word_of = {}
    for word in words:
        try:
            (name,) = given_in([word])
            if name.split(".")[0] not in AXES:
                raise UserError(f"{word}: can't be set in a suite. Choose from: {', '.join(AXES)}.")
            if name == "data":
                raise UserError(f"{word}: leave it out: the suite's `data` names the data set")
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        word_of[name] = word
    return word_of


def _overrides(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Returns the words for a suite's `override`. A setting with the value null gets no word.

    A list means several values of its setting. If the setting is in `LISTS`, the list is a single value.
    """
    words = []
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            words += _overrides(value, f"{name}.")
        elif isinstance(value, list):
            values = ",".join(map(_word, value))
            words.append(f"{name}=[{values}]" if name in LISTS else f"{name}={values}")
        elif value is not None:
            words.append(f"{name}={_word(value)}")
    return words


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def readable(word: str) -> str:
    """Returns `word` in Hydra's syntax. Puts quotes around a path that Hydra can't read without them."""
    # For `AXES_OF_PATHS`, a comma may be part of a path, or separate several values. So the text gets quotes only if
    # such a path exists.
    name, _, path = word.partition("=")
    if name == "suite" or (
        name in GROUPS and re.fullmatch(r"(?i)[\d.]+|true|false|null", path)
    ):  # these are names, although YAML reads them as numbers or booleans
        return f"{name}={quoted(path.strip(QUOTES))}"
    is_path = name in PATHS or (name in AXES_OF_PATHS and Path(path).expanduser().exists())
    if not is_path or re.fullmatch(r"[\w./:@+-]*|['\"].*", path, re.ASCII | re.DOTALL):
        return word
    return f"{name}={quoted(path)}"


def quoted(text: str) -> str:
    """Puts `text`, which may have any characters, into quotes for Hydra."""
    escaped = re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + ("\\'" if match[2] else ""), text)
    return f"'{escaped}'"


def with_arguments_added(words: list[str]) -> list[str]:
    """Puts ++ before words that set arguments of networks or options of sbatch. Hydra needs ++ for new settings."""
    return [f"++{word}" if word.startswith(ARGUMENTS) else word for word in words]


def parse(word: str) -> Override:
    """Parses `word` with Hydra's parser. Raises UserError if the word is not of the form `name=value`."""
    try:
        return OverridesParser.create().parse_override(word)
    except (HydraException, RecursionError) as error:
        raise UserError(
            f"{word[:MAX_WORD]}: not readable as name=value or name=value,value: use spaces only between settings, and "
            f"quote a text with special characters"
        ) from error


def given_in(words: Iterable[str]) -> dict[str, str]:
    """Maps each setting in `words`, words of the command line, to its value as written.

    Raises UserError if a word is not of the form `name=value`, is a setting of Hydra itself, or names no known setting.
    """
    values = {}
    for word in words:
        override = parse(word)
        name = override.key_or_group
        value = override.value()
        text = word.partition("=")[2]
        if not name:
            raise UserError(f"{word}: should be name=value")
        is_free = name.startswith(ARGUMENTS)
        if is_hydras(word):
            raise UserError(f"{word}: only the command line of `accelbench run` accepts Hydra's own settings")
        if f"{word.partition('=')[0]}." in ARGUMENTS:
            raise UserError(f"{word}: should be {name}.NAME=VALUE for each argument")
        if name == "suite":
            value = text.strip(QUOTES)
        if not (override.is_delete() or is_free or word.startswith("+")):
            check_known(name, text)
        values[name] = value if isinstance(value, str) and not is_free else text
    return values


def is_hydras(word: str) -> bool:
    """Is true if a word is a setting of Hydra itself, such as hydra/sweeper=optuna."""
    return word.lstrip("+~").startswith(("hydra.", "hydra/"))


def jobs_of(lines: Iterable[Line]) -> Iterator[Line]:
    """Yields the words of one cell for each combination of the values in `lines`.

    Raises UserError if a setting has no value, or if there are more than `MAX_CELLS` combinations.
    """
    hydras = GlobalHydra.instance()
    num = 0
    parser = OverridesParser.create(
        hydras.config_loader() if hydras.is_initialized() else None
    )  # choices with globs need it
    for line in lines:
        axes = {override.get_key_element(): _values(override) for override in parser.parse_overrides(line)}
        num += math.prod(map(len, axes.values()))
        check_cells(num, " ".join(line))
        yield from (Line(job, line.of_profile) for job in product(*axes.values()))


def _values(override: Override) -> list[str]:
    """Returns a word for each value of an override. Stops after `MAX_CELLS` + 1 values, because a range may be long."""
    word = str(override.input_line)
    key = override.get_key_element()
    if not override.is_sweep_override():
        return [word]
    values: list[str] = []
    with suppress(HydraException, ValueError, ArithmeticError):
        values = list(islice(override.sweep_string_iterator(), MAX_CELLS + 1))
    if not values:
        raise UserError(
            f"{word}: should be a list, or a range with a value, finite bounds and a step that is not 0"
        )
    return [f"{key}={value}" for value in values]


def check_cells(num: int, flag: str) -> None:
    """Raises a UserError if a sweep has more than `MAX_CELLS` cells."""
    if num > MAX_CELLS:
        raise UserError(
            f"{flag}: makes more than {MAX_CELLS:,} cells: name fewer values, or run a separate sweep for each value "
            "of one setting"
        )
