"""The data sets that can be prepared: each is one module of `accelbench.data.sets`."""

import importlib
import pkgutil
from typing import cast

from accelbench.data import sets
from accelbench.data.obtain import DataSet
from accelbench.errors import UnknownChoiceError


def names() -> list[str]:
    """The data sets' names; imports none of them."""
    return sorted(module.name for module in pkgutil.iter_modules(sets.__path__))


def find(name: str) -> DataSet:
    """The data set `name`, as its module defines it. Raises UnknownChoiceError: no module has this name."""
    if name not in names():
        raise UnknownChoiceError("data", name, names())
    return cast(DataSet, importlib.import_module(f"{sets.__name__}.{name}").DATA_SET)
