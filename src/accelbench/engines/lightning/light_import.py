"""Imports Lightning without the rest of torchmetrics and what that imports: transformers, torchvision, scipy.signal.

Lightning needs two classes of torchmetrics, but the package's `__init__` imports all of its metrics, which takes almost
half of Lightning's import. So this module puts the package in place without running its `__init__`. That runs as soon
as anyone asks for another name of it: for the user's code, it is the package as it is.
"""

import importlib
import importlib.util
import logging
import sys
from types import ModuleType
from typing import Any

import numpy

NAME = "torchmetrics"
LIGHT = {"Metric": f"{NAME}.metric", "MetricCollection": f"{NAME}.collections", "__version__": f"{NAME}.__about__"}


class _Deferred(ModuleType):
    """The package before its `__init__` has run."""

    def __getattr__(self, name: str) -> Any:
        if name == "_logger":
            return logging.getLogger(NAME)
        if name in LIGHT:
            importlib.import_module(f"{NAME}.utilities")  # first, as in the `__init__`: these modules import each other
            return getattr(importlib.import_module(LIGHT[name]), name)
        if name.startswith("__") and name != "__all__":  # what Python itself looks for
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")
        self.__class__ = ModuleType  # type: ignore[assignment]  # the `__init__` looks for names of its own package
        self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
        return getattr(self, name)


def defer() -> None:
    """Puts the package in place, unless it is imported already or not installed."""
    if NAME in sys.modules or (spec := importlib.util.find_spec(NAME)) is None:
        return
    sys.modules[NAME] = package = importlib.util.module_from_spec(spec)
    package.__class__ = _Deferred
    numpy.Inf = numpy.inf  # type: ignore[attr-defined]  # the `__init__` does so, and users' code may rely on it


defer()
