"""accelbench from Python: `run`, `measure`, `read` and `compare`; see docs/python.md.

`import accelbench` imports no framework. Each of these names is loaded at its first use.
"""

import random
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelbench.api.measure import measure as measure
    from accelbench.api.results import Comparison as Comparison
    from accelbench.api.results import PairVerdict as PairVerdict
    from accelbench.api.results import Result as Result
    from accelbench.api.results import Results as Results
    from accelbench.api.results import compare as compare
    from accelbench.api.results import read as read
    from accelbench.api.run import run as run
    from accelbench.errors import InvalidError as InvalidError
    from accelbench.errors import UserError as UserError
    from accelbench.schema.cell import Window as Window

# Module -> the names above that it defines.
_MODULES = {
    "api.measure": ("measure",),
    "api.results": ("Comparison", "PairVerdict", "Result", "Results", "compare", "read"),
    "api.run": ("run",),
    "errors": ("InvalidError", "UserError"),
    "schema.cell": ("Window",),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    state = random.getstate()  # which is the caller's; rich draws a number when it is imported
    found = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    random.setstate(state)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
