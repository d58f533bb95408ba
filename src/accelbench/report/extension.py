"""Additions of a project to its report. A Python module makes them; `report_extension` in params.yaml names it.

The module has these functions:
- `of_suite(sweep, warning)`: the `Addition` to a suite's section. If `warning` is not empty, each picture must show it.
- `unmeasured(sweeps)`: a sweep without cells for each published study that was not repeated. Each gets a section.
- `headline(sweeps)`: one or two sentences that compare the measurements with published ones, or an empty text.
- `tiles(sweeps)`: pairs of a number, such as `14 of 20`, and the text below it, for the page's first screen.
- `of_page()`: tables at the end of the page.
"""

import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType

from matplotlib.figure import Figure

from accelbench.errors import UserError
from accelbench.report.table import Table

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
    # Remarks on the published numbers, and on the comparison.
    caveats: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[tuple[str, str, Figure]] = field(default_factory=list)  # file name, description, figure


def load(path: Path | None) -> ModuleType | None:
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
        for name in ("headline", "of_suite", "of_page", "tiles", "unmeasured"):
            getattr(module, name)  # raises if it is missing
        return module
    except Exception as error:  # a report without the extension is better than no report
        raise UserError(f"params.yaml: report_extension: {path}: {error}") from error
    finally:
        sys.path.remove(folder)
