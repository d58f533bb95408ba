"""params.yaml: what `dvc repro` runs."""

import io
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from accelbench.data.obtain import find
from accelbench.errors import UnknownChoiceError, UserError, did_you_mean
from accelbench.judging.costs import Cost
from accelbench.presentation import seconds_of
from accelbench.project import PARAMS, RESULTS, Workplace, resolved
from accelbench.schema.ranges import MAX_S
from accelbench.schema.serialize import load as typed
from accelbench.schema.serialize import read_bytes
from accelbench.schema.text import one_line
from accelbench.schema.vocab import Device
from accelbench.settings.config import PROFILES

SECTIONS = ("costs", "data", "suites")
KEYS = ("profile", "profiles", "retry", "strict", "confirm_s", "report_extension", *SECTIONS)
NAMED = {"data": "a data set", "suites": "a suite"}  # sections whose names are those of folders and files


def load(project: Path | None) -> dict[str, Any]:
    """Reads `project`/params.yaml, with all of `SECTIONS`; they are empty outside of a project (None).

    Raises UserError: it is not usable.
    """
    if project is None:
        return dict.fromkeys((*SECTIONS, "profiles"), {})
    try:
        params = _parsed(read_bytes(project / PARAMS).decode())
    except (OSError, ValueError, yaml.YAMLError, OmegaConfBaseException, UserError) as error:
        raise UserError(f"{PARAMS}: not readable ({' '.join(str(error).split())})") from error
    if not isinstance(params, dict):
        raise UserError(f"{PARAMS}: should be a mapping with profile, data and suites")
    if unknown := sorted(map(str, set(params) - set(KEYS))):
        meant = did_you_mean(unknown[0], KEYS)
        raise UserError(f"{PARAMS}: unknown {', '.join(unknown)}.{meant} Choose from: {', '.join(KEYS)}.")
    profiles = params.get("profiles") or {}
    if not isinstance(profiles, dict) or not set(profiles) <= set(PROFILES):
        raise UserError(f"{PARAMS}: profiles: should map {' and '.join(PROFILES)} to settings, such as budget_s=12")
    return params | {"profiles": profiles} | {key: _section(key, params.get(key)) for key in SECTIONS}


@cache
def _parsed(text: str) -> Any:
    """What the file says, which is not to be changed: a command asks for it several times, and parsing takes long."""
    return OmegaConf.to_container(OmegaConf.load(io.StringIO(text)))


def _section(key: str, named: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(named, dict | None):
        raise UserError(f"{PARAMS}: {key} should map names to settings")
    for name, values in (named or {}).items():
        if key in NAMED:
            _check_name(f"{PARAMS}: {key}.{name}", str(name), NAMED[key])
        if not isinstance(values, dict):
            raise UserError(f"{PARAMS}: {key}.{name}: should map settings to values")
    return {str(name): {str(k): value for k, value in values.items()} for name, values in (named or {}).items()}


def _check_name(flag: str, name: str, what: str) -> None:
    """Raises a UserError, which names `flag`, if `name` is none for the folder or the file of `what`."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UserError(
            f"{one_line(flag)}: the name of {what} is that of a folder: it should have only letters, digits and _-., "
            "and begin with a letter or a digit"
        )


def suite_names(project: Path | None) -> list[str]:
    """The suites of params.yaml, in its order. Raises UserError: it is not usable."""
    return list(load(project)["suites"])


def wanted_suites(project: Path | None, folder: Path) -> list[str] | None:
    """The suites whose sweeps are read for `folder`: of a project's results/ those of params.yaml; None for all.

    Of a suite's folder there, the suite too: it has the figures that it has in results/.
    """
    if project is None or resolved(project / RESULTS) not in (resolved(folder), resolved(folder).parent):
        return None
    return [*suite_names(project), resolved(folder).name]


def data_settings(project: Path | None, name: str, of_profile: str | None = None) -> dict[str, Any]:
    """The settings of data set `name`, such as its `source`, with the values of a profile, by default that in force.

    Raises UserError: params.yaml has no such data set.
    """
    if project is None:
        return {"source": "auto"} if find(name).home else {}
    params = load(project)
    if name not in params["data"]:
        raise UnknownChoiceError("data", name, params["data"])
    return {key: _of_profile(value, of_profile or params.get("profile")) for key, value in params["data"][name].items()}


def _of_profile(value: Any, profile: str | None) -> Any:
    return value[profile or PROFILES[0]] if isinstance(value, dict) and set(value) == set(PROFILES) else value


def confirm_s(project: Path | None) -> float:
    """Seconds for measuring the best cells again, interleaved; 0 for none. Raises UserError: they are no number."""
    settings = load(project)
    value = _of_profile(settings.get("confirm_s", 0), settings.get("profile"))
    found = seconds_of(value) if isinstance(value, str) else value
    if not isinstance(found, int | float) or isinstance(found, bool) or not 0 <= found <= MAX_S:
        raise UserError(f"{PARAMS}: confirm_s={value}: should be a number of seconds, or 0, or a time such as 1m")
    return found


def report_extension(project: Path | None) -> Path | None:
    """The file of the module that adds to the project's report; None without one. Raises UserError: it is no path."""
    value = load(project).get("report_extension")
    if project is None or value is None:
        return None
    if not isinstance(value, str):
        raise UserError(f"{PARAMS}: report_extension={value}: should be the path of a file in the project")
    return project / value


def for_report(place: Workplace, folder: Path) -> dict[str, Any]:
    """What the project says of the report of the records in `folder`, as `report.build.build` takes it."""
    return {
        "costs": costs(place.project),
        "cache": place.cache,
        "extension": report_extension(place.project),
        "wanted": wanted_suites(place.project, folder),
    }


def costs(project: Path | None) -> dict[Device, Cost]:
    """The section `costs`: device -> price_per_hour and power_w. Raises UserError: a wrong key or value."""
    try:
        of_devices = typed(dict[Device, Any], load(project)["costs"], "costs")
        return {device: typed(Cost, values, f"costs.{device}") for device, values in of_devices.items()}
    except ValueError as error:
        known = " and ".join(field.name for field in fields(Cost))
        raise UserError(f"{PARAMS}: {error}. Each of {', '.join(Device)} may have {known}.") from error
