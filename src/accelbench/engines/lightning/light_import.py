"""Defers the import of most of torchmetrics, which makes the import of Lightning faster.

Lightning needs two classes of torchmetrics. But the `__init__` of torchmetrics imports all metrics, and with them
transformers, torchvision and scipy.signal. This takes almost half of the time of Lightning's import.

So this module registers the package torchmetrics in `sys.modules` without running its `__init__`. When code reads a
name of the package that is not in `LIGHT`, the `__init__` runs. For user code, the package behaves as usual.
"""

import importlib
import importlib.util
import logging
import sys
from types import ModuleType
from typing import Any

import numpy

NAME = "torchmetrics"
LIGHT = {
    "Metric": f"{NAME}.metric",
    "MetricCollection": f"{NAME}.collections",
    "__version__": f"{NAME}.__about__",
}


class _Deferred(ModuleType):
    """The package torchmetrics before its `__init__` has run."""

    def __getattr__(self, name: str) -> Any:
        if name == "_logger":
            return logging.getLogger(NAME)
        if name in LIGHT:
            # Utilities come first, as in `__init__`: the modules import each other.
            importlib.import_module(f"{NAME}.utilities")
            return getattr(importlib.import_module(LIGHT[name]), name)
        if name.startswith("__") and name != "__all__":  # Python's import system reads such names
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")
        self.__class__ = ModuleType  # type: ignore[assignment]  # `__init__` reads names of the package
        self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
        return getattr(self, name)


def defer() -> None:
    """Registers the deferred package. Does nothing if torchmetrics is already imported, or if it isn't installed."""
    if NAME in sys.modules or (spec := importlib.util.find_spec(NAME)) is None:
        return
    sys.modules[NAME] = package = importlib.util.module_from_spec(spec)
    package.__class__ = _Deferred
    numpy.Inf = numpy.inf  # type: ignore[attr-defined]  # as `__init__` does: user code may rely on it


defer()
