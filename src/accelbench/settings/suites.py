"""The words of a command line as Hydra reads them, and what a suite of params.yaml adds to them or excludes."""

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser import overrides_parser, overrides_visitor
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from accelbench.errors import UnknownChoiceError, UserError
from accelbench.project import PARAMS
from accelbench.schema.vocab import Library
from accelbench.settings.config import GROUPS, MAX_BRACKETS, NAMES, PROFILES, check_section, meant

# Settings of a whole sweep, which can't be axes.
NOT_AXES = {"suite", "tracking", "profile", "out", "retry", "quiet_s", "verbose"}
AXES = [name for name in NAMES if name not in NOT_AXES]
NO_SUITE = "adhoc"
ARGUMENTS = ("model.args.", "model.batch_args.", "data.args.")  # of the user's own code
OPTIONS = "executor.slurm.additional_parameters."  # with names of sbatch's
PATHS = ("out", "data.root")  # settings whose values are paths
AXES_OF_PATHS = ("data.path", "model.weights", "python")  # of these, a comma may also separate several values
EXCLUDE = "exclude"  # the key of a suite that lists combinations to leave out; all others are settings
# How large a request may be: a slip of the keyboard must not fill the memory.
MAX_CELLS = 10_000  # of a sweep; composing one takes some 5 ms
AT_MOST = f"a sweep has at most {MAX_CELLS:,}: name fewer values, or run a sweep for each value of an axis"

if sys.flags.optimize:  # Hydra reads on inside of asserts, which Python leaves out then
    _path = overrides_visitor.__file__
    exec(compile(Path(_path).read_text(), _path, "exec", optimize=0), vars(overrides_visitor))
    overrides_parser.HydraOverrideVisitor = overrides_visitor.HydraOverrideVisitor

Rule = Mapping[str, Sequence[str]]  # setting -> values, as written; a cell that matches all settings is left out


@dataclass(frozen=True)
class Suite:
    """A suite, as the command line names it."""

    name: str
    axes: Mapping[str, Any]  # its section of params.yaml: setting -> value, list, or `{quick: ..., full: ...}`
    profile: str  # the profile in force

    @classmethod
    def chosen(cls, given: Mapping[str, str], params: Mapping[str, Any]) -> "Suite | None":
        """The suite among the settings of the command line; None without one.

        Raises UserError: the suite or the profile is unknown; a profile without a suite.
        """
        profile, name = given.get("profile") or params.get("profile") or PROFILES[0], given.get("suite")
        if profile not in PROFILES:
            raise UnknownChoiceError("profile", profile, PROFILES)
        if name in (None, NO_SUITE):
            if "profile" in given:
                raise UserError(
                    f"profile={profile}: chooses among the values of a suite, and none is named: add -m suite=NAME. "
                    f"For all suites: `accelbench plan profile={profile}`, `dvc exp run report -S profile={profile}`"
                )
            return None
        if not (suites := params["suites"]):
            where = f"suites are defined in a project's {PARAMS}, under suites:, and there are none here or above"
            raise UserError(f"suite={name}: {where}: `accelbench init` makes a project with some")
        if name not in suites:
            raise UnknownChoiceError("suite", name, suites)
        return cls(str(name), suites[name], str(profile))

    def overrides(self, given: Mapping[str, str], is_sweep: bool) -> list[str]:
        """The overrides of the suite's values but those `given`. A sweep has all values of an axis, a run the first.

        Raises UserError: a setting is unknown, or has no value; the suite does not name exactly one data set.
        """
        flag, result = f"{PARAMS}: suites.{self.name}", []
        if "data" not in self.axes:
            raise UserError(f"{flag}.data: missing; it names the data set")
        for name, axis in self.axes.items():
            if name == EXCLUDE:
                continue
            if name.split(".")[0] not in AXES:
                raise UserError(f"{flag}.{name}: unknown setting.{meant(name)} Choose from: {', '.join(AXES)}.")
            axis = self._of_profile(axis, f"{flag}.{name}", "value")
            values = axis if isinstance(axis, list) else [axis]
            if not values or any(isinstance(value, list | Mapping) for value in values):
                raise UserError(
                    f"{flag}.{name}: should be a value, a list of values, or {{quick: ..., full: ...}}; "
                    'quote a value that is a list itself: "[3,32,32]"'
                )
            if name == "data" and len(values) != 1:
                raise UserError(f"{flag}.data: should name exactly one data set")
            if name not in given:
                result.append(f"{name}={','.join(map(_word, values if is_sweep else values[:1]))}")
        return [*result, *([] if "profile" in given else [f"profile={self.profile}"])]

    def rules(self, given: Mapping[str, str]) -> list[Rule]:
        """The exclude rules, such as `{model: lstm, device: [cpu, gpu]}`. What is `given` is never left out.

        Raises UserError: a rule is malformed, or names a setting that the suite doesn't set.
        """
        flag = f"{PARAMS}: suites.{self.name}.{EXCLUDE}"
        listed = self._of_profile(self.axes.get(EXCLUDE) or [], flag, "list")
        if not isinstance(listed, list) or not all(isinstance(rule, Mapping) and rule for rule in listed):
            raise UserError(f"{flag}: should be a list of combinations, such as {{model: lstm, device: xla_cpu}}")
        for name in {name for rule in listed for name in rule} - (set(self.axes) - {EXCLUDE}):
            raise UserError(f"{flag}: {name} is none of the suite's settings")
        return [
            {name: [*map(_key, v if isinstance(v, list) else [v])] for name, v in rule.items()}
            for rule in listed
            if not set(rule) & set(given)
        ]

    def _of_profile(self, value: Any, flag: str, what: str) -> Any:
        if not isinstance(value, Mapping):
            return value
        if set(value) != set(PROFILES):
            raise UserError(f"{flag}: should have a {what} for each of {', '.join(PROFILES)}, and no other key")
        return value[self.profile]


def without_missing_file(words: list[str], given: Mapping[str, str], conf: Path) -> list[str]:
    """`words` with a suite that has no file in conf/suite, which only gives a title, as `suite=adhoc` with its name."""
    suite = given.get("suite")
    if suite is None or (conf / "suite" / f"{suite}.yaml").exists():
        return words
    others = [word for word in words if not word.startswith("suite=")]
    name = quoted(suite)
    return [*others, f"suite={NO_SUITE}", f"suite.name={name}", f"suite.title={name}"]


def is_excluded(run: DictConfig, rules: Iterable[Rule]) -> bool:
    """Whether a composed configuration matches one of the exclude rules."""
    return any(all(_values_of(run, name) & set(values) for name, values in rule.items()) for rule in rules)


def _values_of(run: DictConfig, setting: str) -> set[str]:
    paths = [f"{setting}.name" if setting in GROUPS else setting, *(["model.library"] * (setting == "model"))]
    return {_key(getattr(value, "value", value)) for value in (OmegaConf.select(run, path) for path in paths)}


def readable(word: str) -> str:
    """`word` as Hydra reads it: a path gets quotes if Hydra would not take it as it is."""
    # Of a setting that may be an axis, only a path that is there: it may have commas, which else separate values.
    name, _, path = word.partition("=")
    is_path = name in PATHS or (name in AXES_OF_PATHS and Path(path).expanduser().exists())
    if not is_path or re.fullmatch(r"[\w./:@+-]*|['\"].*", path, re.ASCII | re.DOTALL):
        return word
    return f"{name}={quoted(path)}"


def quoted(text: str) -> str:
    """`text` as a quoted value of Hydra's, which may have any characters."""
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), text)
    return f"'{escaped}'"


def with_arguments_added(words: list[str]) -> list[str]:
    """`words` with the plus signs that Hydra needs to add arguments of unknown networks, and options of sbatch."""
    # Of accelbench's own networks conf/ has all arguments: an unknown name stays an error.
    models = {name.strip() for word in words if word.startswith("model=") for name in word[6:].split(",")}
    has_arguments = bool(models & (set(Library) - {Library.accelbench}))
    added = (*(ARGUMENTS if has_arguments else ()), OPTIONS)
    return [f"++{word}" if word.startswith(added) else word for word in words]


def parse(word: str) -> Override:
    """`word` as Hydra reads it. Raises UserError: it is not of the form `name=value`."""
    check_brackets(word)
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise UserError(f"{word}: not readable as name=value or name=value,value; quote odd texts") from error


def given_in(words: Iterable[str]) -> dict[str, str]:
    """The settings that words of the command line name, and their values as written.

    Raises UserError: a word is not of the form `name=value`, or names a setting of Hydra itself.
    """
    given = {}
    for word in words:
        override = parse(word)
        name, value = override.key_or_group, override.value()
        if not name:
            raise UserError(f"{word}: should be name=value")
        if name.strip("/").startswith("hydra"):
            raise UserError(f"{word}: Hydra's own settings are fixed; out=FOLDER names the folder of the records")
        is_argument = name.startswith((*ARGUMENTS, OPTIONS))
        if override.is_delete() or (not is_argument and (override.is_add() or override.is_force_add())):
            raise UserError(f"{word}: settings are neither added nor taken away: write {name}=VALUE")
        if name == "suite":
            value = word.partition("=")[2].strip("'\"")
        if name in GROUPS and isinstance(value, int | float | None):  # Hydra's message would not name the setting
            raise UserError(f"{word}: should be the name of a file in conf/{name}/")
        check_section(name, value.list if isinstance(value, ChoiceSweep) else [value])
        given[name] = value if isinstance(value, str) and not is_argument else word.partition("=")[2]
    return given


def _word(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(value: Any) -> str:
    """`value` as text for comparing: 8 and 8.0 are equal."""
    return _word(int(value) if isinstance(value, float) and value.is_integer() else value)


def check_brackets(word: str) -> None:
    """Raises a UserError if the brackets of a setting are nested deeper than `MAX_BRACKETS`."""
    depth = 0
    for character in word:
        depth += (character in "[{(") - (character in "]})")
        if depth > MAX_BRACKETS:
            raise UserError(f"{word[:MAX_BRACKETS]}...: more than {MAX_BRACKETS} brackets within each other")


def check_combinations(overrides: Iterable[Override]) -> int:
    """The number of combinations of all values that a sweep's overrides list.

    Raises UserError: it is 0, or above `MAX_CELLS`; the message names the axes with their lengths.
    """
    lengths = {override.get_key_element(): _num_values(override) for override in overrides}
    if empty := [name for name, length in lengths.items() if not length]:
        raise UserError(f"{', '.join(empty)}: a range without a value")
    num = math.prod(lengths.values())
    if num > MAX_CELLS:
        axes = " x ".join(f"{name} ({_count(length)})" for name, length in lengths.items() if length > 1)
        raise UserError(f"{axes}: {_count(num)} combinations; {AT_MOST}")
    return num


def check_cells(num: int, flag: str) -> None:
    """Raises a UserError if a sweep has more than `MAX_CELLS` cells."""
    if num > MAX_CELLS:
        raise UserError(f"{flag}: makes {_count(num)} cells; {AT_MOST}")


def _count(num: int) -> str:
    return f"{num:,}" if num < 10**12 else f"over {10**12:,}"  # Python refuses to print very long numbers


def _num_values(override: Override) -> int:
    value = override.value()
    if isinstance(value, ChoiceSweep):
        return len(value.list)
    if not isinstance(value, RangeSweep):
        return 1
    start, stop, step = value.start or 0, value.stop or 0, value.step
    try:
        length: int = math.ceil((stop - start) / step)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise UserError(f"{override.input_line}: a range needs finite bounds, and a step other than 0") from error
    return max(0, length)
