"""Additions of a project to its report. A Python module makes them; `report_extension` in params.yaml names it."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from matplotlib.figure import Figure

from accelbench.errors import UserError
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Table

DPI = 130  # of saved pictures


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture of the report: its path in the report's folder, and a text that describes it."""

    path: str
    alt: str
    figure: Figure


@dataclass(frozen=True, kw_only=True)
class Addition:
    """Additions to a suite's section. The page shows `sentence` and `main`. The reader unfolds the other fields."""

    sentence: str = ""  # compares the measurements with the published numbers
    main: Table | None = None  # table with published numbers beside ours
    caveats: list[str] = field(default_factory=list)  # remarks on the published numbers, and on the comparison
    tables: list[Table] = field(default_factory=list)
    pictures: list[tuple[str, str, Figure]] = field(default_factory=list)  # file name, description, figure


class Extension(Protocol):
    """The functions of a project's module.

    The module may also have a function `tiles(sweeps)`. It returns pairs of a number, such as `14 of 20`, and the
    text below it. The page's first screen shows them.
    """

    def of_suite(self, sweep: Sweep, warning: str) -> Addition:
        """Returns the additions to a suite's section. If `warning` is not empty, each picture must show it."""

    def unmeasured(self, sweeps: Sequence[Sweep]) -> Sequence[Sweep]:
        """Returns a sweep without cells for each published study that was not repeated. Each sweep gets a section."""

    def headline(self, sweeps: Sequence[Sweep]) -> str:
        """Returns one or two sentences that compare the measurements with published ones, or an empty text."""

    def of_page(self) -> list[Table]:
        """Tables at the end of the page."""


def load(path: Path | None) -> Extension | None:
    """Imports the module in the file `path`, which lies in a package. Returns None if `path` is None.

    Raises UserError: there is no such file, or it can't be imported.
    """
    if path is None:
        return None
    folder = str(path.parents[1])
    sys.path.insert(0, folder)
    try:
        if not path.is_file():
            raise FileNotFoundError("no such file")
        module = import_module(f"{path.parent.name}.{path.stem}")
        for name in ("headline", "of_suite", "of_page", "unmeasured"):
            getattr(module, name)  # raises if it is missing, as in modules for earlier releases
        return cast(Extension, module)
    except Exception as error:  # a report without the extension is better than no report
        raise UserError(f"params.yaml: report_extension: {path}: {error}") from error
    finally:
        sys.path.remove(folder)
