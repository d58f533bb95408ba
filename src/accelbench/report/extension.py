"""What a project adds to its report: a Python module in the project, which params.yaml names (`report_extension`)."""

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

DPI = 130  # of the files of pictures


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture of the report: its path in the report's folder, and a text that describes it."""

    path: str
    alt: str
    figure: Figure


@dataclass(frozen=True, kw_only=True)
class Addition:
    """What is added to a suite's section: the page folds all but the sentence and the main table."""

    sentence: str = ""  # what the measurements say to what was published
    main: Table | None = None  # where published numbers stand beside ours
    caveats: list[str] = field(default_factory=list)  # about the published numbers, and how they compare
    tables: list[Table] = field(default_factory=list)
    pictures: list[tuple[str, str, Figure]] = field(default_factory=list)  # name of the file, what it shows, figure


class Extension(Protocol):
    """The functions of such a module.

    It may also have `tiles(sweeps)`: figures for the first screen, such as `14 of 20`, each with what it is of.
    """

    def of_suite(self, sweep: Sweep, warning: str) -> Addition:
        """What is added to a suite's section; `warning`, which may be empty, is to stand on each picture."""

    def unmeasured(self, sweeps: Sequence[Sweep]) -> Sequence[Sweep]:
        """Sweeps without cells, of what was published and is not repeated: each has a section."""

    def headline(self, sweeps: Sequence[Sweep]) -> str:
        """How the measurements stand to published ones, in one or two sentences; may be empty."""

    def of_page(self) -> list[Table]:
        """Tables at the end of the page."""


def load(path: Path | None) -> Extension | None:
    """The module in the file `path`, which lies in a package; None for none.

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
            getattr(module, name)  # raises if it is missing, as in one for an earlier release
        return cast(Extension, module)
    except Exception as error:  # a report without it is better than none
        raise UserError(f"params.yaml: report_extension: {path}: {error}") from error
    finally:
        sys.path.remove(folder)
