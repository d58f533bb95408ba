"""Facts of a machine and its project, in words and tables that both views of `doctor` show."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from accelbench.data.manifest import read_manifest
from accelbench.devices.registry import DeviceReport
from accelbench.errors import UserError
from accelbench.project import MANIFEST, PARAMS, Workplace
from accelbench.schema.conditions import Data
from accelbench.schema.text import one_line
from accelbench.settings import params

GB = 1e9  # bytes
TOO_LOW = "too low, since probed beside other load"
NOT_PROBED = "not probed yet: the first cell on each device does it"


def facts(report: DeviceReport, but: Collection[str] = ()) -> str:
    """A device's name, memory and details, without the details named in `but`."""
    count = f"{report.count} x " if report.count > 1 else ""
    memory = [f"memory {report.memory_bytes / GB:.1f} GB"] if report.memory_bytes is not None else []
    details = [f"{key.replace('_', ' ')} {value}" for key, value in report.details.items() if key not in but]
    return ", ".join([count + report.name, *memory, *details])


def grid(*columns: str) -> Table:
    """A table that is readable as plain text: no frame, and the first column is never wrapped."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns), header_style="dim")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    return table


def settings_of(place: Workplace, *, briefly: bool = False) -> Text:
    """The project's profile and suites, which are counted if `briefly`; or why there are none."""
    if place.project is None:
        return Text(f"no {PARAMS} with suites here or above: `accelbench init` makes a project")
    try:
        settings = params.load(place.project)
    except UserError as error:
        return Text(_relative(error, place.root), style="red")
    names = list(map(str, settings.get("suites") or {}))
    suites = f"{len(names)} suites" if briefly else f"suites: {', '.join(names) or 'none'}"
    return Text(f"{PARAMS}: profile {settings.get('profile')}, {suites}")


def _relative(error: UserError, root: Path) -> str:
    """The message on one line, with paths relative to the project's folder."""
    return one_line(str(error).replace(f"{root}/", ""))


@dataclass(frozen=True)
class DataSet:
    """A data set of the project.

    Attributes:
        name: of the data set.
        data: as it was prepared; None if it is not.
        problem: why it is not; None if it is.
    """

    name: str
    data: Data | None
    problem: str | None


def data_sets(place: Workplace) -> list[DataSet]:
    """The data sets that params.yaml names; outside of a project those that were prepared.

    Raises:
        UserError: params.yaml is not readable.
    """
    if place.project is None:  # a run prepares any other
        names = sorted(path.parent.name for path in place.data.glob(f"*/{MANIFEST}"))
    else:
        names = [str(name) for name in params.load(place.project).get("data") or {}]
    found = []
    for name in names:
        try:
            found.append(DataSet(name, read_manifest(place.data / name), None))
        except UserError as error:
            found.append(DataSet(name, None, _relative(error, place.root)))
    return found
