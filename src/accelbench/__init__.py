"""accelbench from Python: `run`, `measure`, `read` and `compare`; see docs/python.md.

Importing it imports no framework: each name is loaded when it is first used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelbench.api.comparison import Comparison, PairVerdict, compare
    from accelbench.api.measure import measure
    from accelbench.api.measurement import Measurement
    from accelbench.api.results import Result, Results, read
    from accelbench.api.run import run
    from accelbench.errors import InvalidError, UserError
    from accelbench.schema.cell import Window

# Public name -> the module that defines it.
_PLACES = {
    "Comparison": "accelbench.api.comparison",
    "InvalidError": "accelbench.errors",
    "Measurement": "accelbench.api.measurement",
    "PairVerdict": "accelbench.api.comparison",
    "Result": "accelbench.api.results",
    "Results": "accelbench.api.results",
    "UserError": "accelbench.errors",
    "Window": "accelbench.schema.cell",
    "compare": "accelbench.api.comparison",
    "measure": "accelbench.api.measure",
    "read": "accelbench.api.results",
    "run": "accelbench.api.run",
}
__all__ = [
    "Comparison",
    "InvalidError",
    "Measurement",
    "PairVerdict",
    "Result",
    "Results",
    "UserError",
    "Window",
    "compare",
    "measure",
    "read",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """This package, in which `compare` is the function, and not the folder of that name, once that was imported."""

    @property
    def compare(self) -> Any:
        return __getattr__("compare")

    @compare.setter
    def compare(self, folder: ModuleType) -> None:
        """Python's import sets it to the folder: nothing needs that, as `from accelbench.compare` does not."""


sys.modules[__name__].__class__ = _Package
