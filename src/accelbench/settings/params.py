"""params.yaml: the file that declares what `dvc repro` runs."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from accelbench.data.sets import find
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.judging.costs import Cost
from accelbench.project import PARAMS, RESULTS, resolved
from accelbench.schema.cell import Device
from accelbench.schema.serialize import Seconds
from accelbench.schema.serialize import load as typed
from accelbench.schema.text import one_line
from accelbench.settings.config import Profile, Retry

Section = dict[str, dict[str, Any]]  # name -> settings


class Params(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of params.yaml. `suites.Suite` checks a suite only when the suite is used."""

    profile: Profile = Profile.quick
    profiles: dict[Profile, str] = {}  # profile -> words that are added to each line of all suites
    retry: Retry = Retry.none
    strict: bool = True  # whether an unexpected failure gives exit status 1
    confirm_s: Seconds | dict[Profile, Seconds] = 0.0
    report_extension: str | None = None  # the path of a Python file in the project
    costs: dict[Device, Cost] = {}  # price_per_hour and power_w of a device
    data: Section = {}
    suites: Section = {}

    def of_profile(self, value: Any) -> Any:
        """Returns `value`, or the profile's part if `value` lists the profiles, as in {quick: 50, full: 1000}."""
        is_varied = isinstance(value, dict) and set(value) == set(Profile)
        return value[self.profile] if is_varied else value


def load(project: Path | None) -> Params:
    """Reads `project`/params.yaml. Without a project, returns the defaults. Raises UserError if the file is invalid."""
    if project is None:
        return Params()
    try:
        values = _parsed((project / PARAMS).read_bytes().decode())
    except (OSError, ValueError, yaml.YAMLError, OmegaConfBaseException, UserError) as error:
        raise UserError(f"{PARAMS}: not readable ({' '.join(str(error).split())})") from error
    try:
        params = typed(Params, values)
    except ValueError as error:
        raise UserError(f"{PARAMS}: {error}; docs/sweeps.md describes the file") from error
    for name in (*params.data, *params.suites):
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise UserError(
                f"{PARAMS}: {one_line(name)}: a folder gets this name: use only letters, digits, _, - and ., and "
                "begin with a letter or a digit"
            )
    return params


@cache
def _parsed(text: str) -> Any:
    """Parses the file's text, which takes long. Callers must not change the values. Equal keys raise YAMLError."""
    return OmegaConf.to_container(OmegaConf.create(text))


def suite_names(project: Path | None) -> list[str]:
    """Returns the names of the suites in params.yaml, in order. Raises UserError if the file is not valid."""
    return list(load(project).suites)


def wanted_suites(project: Path | None, folder: Path) -> list[str] | None:
    """Returns the suites that a report on `folder` reads. Returns None if it reads all suites.

    A report on results/, or on a suite's folder in results/, reads all suites that params.yaml names. So both reports
    show the same numbers for a suite.
    """
    if project is None or resolved(project / RESULTS) not in (resolved(folder), resolved(folder).parent):
        return None
    return [*suite_names(project), resolved(folder).name]


def data_settings(project: Path | None, name: str) -> dict[str, Any]:
    """Returns the settings of the data set `name`, such as its `source`.

    Raises UserError if params.yaml has no such data set.
    """
    if project is None:
        return {"source": "auto"} if find(name).home else {}
    params = load(project)
    if name not in params.data:
        raise UnknownChoiceError("data", name, params.data)
    return {key: params.of_profile(value) for key, value in params.data[name].items()}


def confirm_s(project: Path | None) -> float:
    """Returns for how many seconds the best cells are measured again, in turns. If it is 0, they are not."""
    params = load(project)
    seconds: float = params.of_profile(params.confirm_s)
    return seconds


def report_extension(project: Path | None) -> Path | None:
    """Returns the Python file that extends the project's report. Returns None if there is no such file."""
    name = load(project).report_extension
    return None if project is None or name is None else project / name
