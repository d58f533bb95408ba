"""A user's own network, `model.target`: its import and its checks.

Importing runs the user's code. Therefore only the process of a cell imports it.
"""

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from accelbench.errors import UserError
from accelbench.schema.workload import ModelSpec

EXAMPLE = "my_package.nets.MyNet"
# Root package of Lightning -> the package that defines LightningModule and Trainer.
LIGHTNING = {"lightning": "lightning.pytorch", "pytorch_lightning": "pytorch_lightning"}


def dotted_path(text: str) -> str:
    """Converts the name of a file or an entry point to a dotted path; empty if it can't be converted.

    nets.py -> nets.MyNet, if MyNet is the first network in the file. nets.py:MyNet, nets:MyNet, ./nets/MyNet ->
    nets.MyNet.
    """
    module, _, name = re.sub(r"\.py\b:*", ":", text).partition(":")
    file = f"{module}.py"
    if os.path.isfile(file) and not name:  # isfile returns False for a name that is too long
        networks = re.findall(r"^class (\w+)\(.*Module", Path(file).read_text(errors="replace"), re.MULTILINE)
        name = [*networks, "MyNet"][0]
    path = f"{os.path.relpath(module or '.')}.{name}".removesuffix(".").replace("/", ".")
    return path if "." in path and all(part.isidentifier() for part in path.split(".")) else ""


def check_path(flag: str, path: str) -> None:
    """Checks the setting `flag`. Raises UserError if `path` is no dotted path, or is in Python's standard library."""
    root, dot, _ = path.partition(".")
    if not dot or path.endswith(".py") or not all(part.isidentifier() for part in path.split(".")):
        example = dotted_path(path) or EXAMPLE
        raise UserError(f"{flag}={path}: should be a dotted path that Python can import here, such as {flag}={example}")
    if root in sys.stdlib_module_names:
        why = f"{root} is a module of Python's standard library; give your module another name"
        raise UserError(f"{flag}={path}: {why}")


def import_path(flag: str, path: str) -> Callable[..., Any]:
    """Imports a class or function, but does not call it.

    Raises UserError if the path names no class or function, or one of Python's standard library.
    """
    check_path(flag, path)
    module, _, name = path.rpartition(".")
    try:
        target: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{flag}={path}: can't be imported ({error})") from error
    if not callable(target):
        raise UserError(f"{flag}={path}: should be a class or a function, not of type {type(target).__name__}")
    function = target
    while isinstance(function, partial):
        function = function.func
    home = getattr(function, "__module__", None) or type(function).__module__  # None: a method of a built-in object
    if home.partition(".")[0] in sys.stdlib_module_names:
        raise UserError(f"{flag}={path}: it is part of Python's standard library")
    return target  # type: ignore[no-any-return]


def check_call(named: str, function: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Raises UserError if a class or function does not accept these arguments. The message begins with `named`."""
    with suppress(ValueError):  # a callable without a signature is not checked
        try:
            inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            raise UserError(f"{named}: {error}") from error


def import_target(model: ModelSpec, network: type, named: str) -> Callable[..., object]:
    """Imports the class or function `model.target`.

    `network` is the framework's base class of networks; messages call it `named`. Raises UserError if the import fails.
    Also raises UserError if `model.factory` is false and the target is neither a subclass of `network` nor a function
    whose return annotation is one.
    """
    target = import_path("model.target", model.definition)
    if not (model.factory or _is_network(target, network) or _is_network(_returned_by(target), network)):
        why = f"is neither a subclass of {named} nor a function whose return annotation is one"
        raise UserError(f"model.target={model.definition}: {why}; if it returns a network, set model.factory=true")
    return target


def lightning_package(kind: type, base: str) -> str | None:
    """The package of Lightning, `lightning.pytorch` or `pytorch_lightning`, that defines a parent class of `kind`.

    `base` is the name of the parent class. None if no parent class has this name and comes from Lightning.
    """
    for parent in kind.__mro__:
        root = parent.__module__.partition(".")[0]
        if parent.__name__ == base and root in LIGHTNING:
            return LIGHTNING[root]
    return None


def _is_network(target: object, network: type) -> bool:
    return isinstance(target, type) and issubclass(target, network)


def _returned_by(target: Callable[..., object]) -> object:
    """The type of a function's return annotation; None if there is none, or if its evaluation fails."""
    try:
        return get_type_hints(target).get("return")
    except Exception:
        return None
