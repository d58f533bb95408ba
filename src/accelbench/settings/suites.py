"""A suite's axes in params.yaml -> the overrides that sweep them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from accelbench.errors import UnknownChoiceError, UserError
from accelbench.project import PARAMS
from accelbench.settings.config import GROUPS, RunConfig
from accelbench.settings.params import PROFILES

# What a suite may not set, since it is the sweep's and not a cell's.
NOT_AXES = {"suite", "tracking", "profile", "out", "retry", "verbose"}
NO_SUITE = "adhoc"
# The one key of a suite that is no setting: combinations that are left out.
EXCLUDE = "exclude"

Rule = Mapping[str, Sequence[str]]  # a setting -> the values, as written, of the cells that are left out


def with_suite(words: list[str], settings: DictConfig) -> list[str]:
    """The command line with the axes of the suite that it names put in.

    Args:
        words: flags, and overrides in Hydra's grammar; `-m` among them sweeps all values of each axis.
        settings: params.yaml.

    Raises:
        UserError: the suite or the profile is unknown, or params.yaml is wrong.
    """
    given = _all_given(words)
    profile = chosen_profile(given.get("profile"), settings.get("profile"))
    suite = given.get("suite")
    if suite is None or suite == NO_SUITE:
        return words
    sweep = "-m" in words or "--multirun" in words
    mine = overrides(suite, suite_axes(settings, suite), profile, given, sweep)
    return [*words, *mine, *([] if "profile" in given else [f"profile={profile}"])]


def exclusions(words: list[str], settings: DictConfig) -> list[Rule]:
    """What the suite that the command line names leaves out of its grid.

    A rule of which the command line names a setting does not hold: what a user asks for is run.

    Args:
        words: as for `with_suite`.
        settings: params.yaml.

    Raises:
        UserError: as `with_suite` does, or a rule is none.
    """
    given = _all_given(words)
    suite = given.get("suite")
    if suite is None or suite == NO_SUITE:
        return []
    profile = chosen_profile(given.get("profile"), settings.get("profile"))
    return [rule for rule in rules(suite, suite_axes(settings, suite), profile) if not set(rule) & set(given)]


def rules(suite: str, axes: Mapping[str, Any], profile: str) -> list[Rule]:
    """The suite's rules for what is left out.

    Args:
        suite: its name in params.yaml, for messages.
        axes: its section there; `exclude` is a list of `{setting: value or list of values}`, or one for each
            profile.
        profile: which of the latter.

    Raises:
        UserError: that is not what it is, or a rule names what the suite doesn't set.
    """
    flag = f"{PARAMS}: suites.{suite}.{EXCLUDE}"
    listed = axes.get(EXCLUDE) or []
    if isinstance(listed, Mapping):
        if set(listed) != set(PROFILES):
            raise UserError(f"{flag}: should have a list for each of {', '.join(PROFILES)}, and no other key")
        listed = listed[profile]
    if not isinstance(listed, list) or not all(isinstance(rule, Mapping) and rule for rule in listed):
        raise UserError(f"{flag}: should be a list of combinations, such as {{model: lstm, device: xla_cpu}}")
    known = [name for name in axes if name != EXCLUDE]
    for name in (name for rule in listed for name in rule):
        if name not in known:
            raise UserError(f"{flag}: {name} is none of the suite's settings. Choose from: {', '.join(known)}.")
    return [{name: list(map(_key, v if isinstance(v, list) else [v])) for name, v in rule.items()} for rule in listed]


def is_excluded(config: DictConfig, excluded: Iterable[Rule]) -> bool:
    """Whether a composed configuration is one of the combinations that are left out."""
    return any(all(_chosen(config, name) & set(values) for name, values in rule.items()) for rule in excluded)


def _chosen(config: DictConfig, setting: str) -> set[str]:
    """What `config` has for `setting`, as it would be written; a model goes by its library's name too."""
    keys = [f"{setting}.name" if setting in GROUPS else setting, *(["model.library"] if setting == "model" else [])]
    values = [OmegaConf.select(config, key) for key in keys]
    return {_key(getattr(value, "value", value)) for value in values}


def _all_given(words: list[str]) -> dict[str, str]:
    return dict(_given(word) for word in words if word[:1] != "-" and ("=" in word or word[:1] == "~"))


def _given(word: str) -> tuple[str, str]:
    """The setting that `word` names, and its value as written.

    Raises:
        UserError: it is no `name=value`.
    """
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise UserError(f"{word}: not readable as name=value ({str(error).splitlines()[0]})") from error
    name, value = override.key_or_group, override.value()
    if not name:
        raise UserError(f"{word}: should be name=value")
    if name.startswith("model.args.") and (override.is_add() or override.is_force_add()):  # its own
        return name, word.partition("=")[2]
    if (override.is_add() or override.is_force_add() or override.is_delete()) and not name.startswith("hydra"):
        raise UserError(f"{word}: settings are neither added nor taken away: write {name}=VALUE")
    if name in GROUPS and isinstance(value, int | float | None):  # Hydra's own complaint names no setting
        raise UserError(f"{word}: should be the name of a file in conf/{name}/")
    return name, value if isinstance(value, str) else word.partition("=")[2]


def overrides(suite: str, axes: Mapping[str, Any], profile: str, given: Iterable[str], sweep: bool) -> list[str]:
    """The overrides that give a run the suite's values.

    Args:
        suite: its name in params.yaml, for messages.
        axes: its section there: a setting -> a value, a list, or `{quick: ..., full: ...}`.
        profile: which of the latter.
        given: settings on the command line: these win, so they are left out.
        sweep: whether all values of an axis are swept; else the first is taken.

    Raises:
        UserError: a setting is unknown, or has no value; the suite does not name exactly one data set.
    """
    known = [field.name for field in fields(RunConfig) if field.name not in NOT_AXES]
    flag = f"{PARAMS}: suites.{suite}"
    result = []
    for name, axis in axes.items():
        if name == EXCLUDE:
            continue
        if name.split(".")[0] not in known:
            raise UserError(f"{flag}.{name}: unknown setting. Choose from: {', '.join(known)}.")
        values = _values(axis, profile, f"{flag}.{name}")
        if name == "data" and len(values) != 1:
            raise UserError(f"{flag}.data: should name exactly one data set")
        if name not in given:
            result.append(f"{name}={','.join(map(_word, values if sweep else values[:1]))}")
    if "data" not in axes:
        raise UserError(f"{flag}.data: missing; it names the data set")
    return result


def _values(axis: Any, profile: str, flag: str) -> list[Any]:
    if isinstance(axis, Mapping):
        if set(axis) != set(PROFILES):
            raise UserError(f"{flag}: should have a value for each of {', '.join(PROFILES)}, and no other key")
        axis = axis[profile]
    values = list(axis) if isinstance(axis, list) else [axis]
    if not values or any(isinstance(value, list | Mapping) for value in values):
        raise UserError(f"{flag}: should be a value, a list of values, or {{quick: ..., full: ...}}")
    return values


def _word(value: Any) -> str:
    """`value` as Hydra's command line reads it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(value: Any) -> str:
    """`value` for comparing: a number is the same with and without a point."""
    return _word(int(value) if isinstance(value, float) and value.is_integer() else value)


def chosen_profile(on_command_line: str | None, in_params: Any) -> str:
    """The profile in force: the command line's, else params.yaml's, else quick.

    Raises:
        UnknownChoiceError: it is neither quick nor full.
    """
    profile = on_command_line or in_params or PROFILES[0]
    if profile not in PROFILES:
        raise UnknownChoiceError("profile", profile, PROFILES)
    return str(profile)


def suite_axes(params: Any, suite: str) -> dict[str, Any]:
    """The suite's section of params.yaml.

    Raises:
        UnknownChoiceError: there is none.
        UserError: it is no mapping.
    """
    suites = params.get("suites")
    if not isinstance(suites, DictConfig) or suite not in suites:
        raise UnknownChoiceError("suite", suite, map(str, suites if isinstance(suites, DictConfig) else ()))
    axes = OmegaConf.to_container(suites)[suite]  # type: ignore[call-overload, index]
    if not isinstance(axes, dict):
        raise UserError(f"{PARAMS}: suites.{suite}: should map settings to values")
    return {str(name): axis for name, axis in axes.items()}
