"""A user's own network, `model.target`: imported, which runs its code, in a cell's process alone, and judged there."""

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
# The root packages of Lightning -> the package in it that has a LightningModule and a Trainer of its own.
LIGHTNING = {"lightning": "lightning.pytorch", "pytorch_lightning": "pytorch_lightning"}


def dotted_path(text: str) -> str:
    """The dotted path that a file or an entry point means; empty if none.

    nets.py -> nets.MyNet, the first network there; nets.py:MyNet, nets:MyNet, ./nets/MyNet -> nets.MyNet
    """
    module, _, name = re.sub(r"\.py\b:*", ":", text).partition(":")
    file = f"{module}.py"
    if os.path.isfile(file) and not name:  # False of a name that is too long for a file
        networks = re.findall(r"^class (\w+)\(.*Module", Path(file).read_text(errors="replace"), re.MULTILINE)
        name = [*networks, "MyNet"][0]
    path = f"{os.path.relpath(module or '.')}.{name}".removesuffix(".").replace("/", ".")
    return path if "." in path and all(part.isidentifier() for part in path.split(".")) else ""


def check_path(flag: str, path: str) -> None:
    """Raises a UserError if the setting `flag` is no dotted path, or one in Python's standard library."""
    root, dot, _ = path.partition(".")
    if not dot or path.endswith(".py") or not all(part.isidentifier() for part in path.split(".")):
        example = dotted_path(path) or EXAMPLE
        raise UserError(f"{flag}={path}: should be a dotted path that Python can import here, such as {flag}={example}")
    if root in sys.stdlib_module_names:
        why = f"{root} is a module of Python's standard library; a module of your own needs another name"
        raise UserError(f"{flag}={path}: {why}")


def import_path(flag: str, path: str) -> Callable[..., Any]:
    """Imports a class or function without calling it. Raises UserError: the path has none, or it is Python's own."""
    check_path(flag, path)
    module, _, name = path.rpartition(".")
    try:
        target: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{flag}={path}: can't be imported ({error})") from error
    if not callable(target):
        raise UserError(f"{flag}={path}: should be a class or a function, not of type {type(target).__name__}")
    run = target  # the code that a call would run
    while isinstance(run, partial):
        run = run.func
    home = getattr(run, "__module__", None) or type(run).__module__  # methods of built-in objects have none
    if home.partition(".")[0] in sys.stdlib_module_names:
        raise UserError(f"{flag}={path}: it is part of Python's standard library")
    return target  # type: ignore[no-any-return]


def check_call(named: str, function: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Raises a UserError, which begins with `named`, if a class or function does not take these arguments."""
    with suppress(ValueError):  # not every callable has a signature
        try:
            inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            raise UserError(f"{named}: {error}") from error


def import_target(model: ModelSpec, network: type, named: str) -> Callable[..., object]:
    """Imports the class or function that `model.target` names; `network` is the framework's class, known as `named`.

    Raises UserError: it is missing, or does not say that it makes a network and `model.factory` is false.
    """
    target = import_path("model.target", model.definition)
    if not (model.factory or _is_network(target, network) or _is_network(_returned_by(target), network)):
        why = f"is neither a subclass of {named} nor a function whose return annotation is one"
        raise UserError(f"model.target={model.definition}: {why}; if you trust it, model.factory=true has it called")
    return target


def lightning_package(kind: type, base: str) -> str | None:
    """`pytorch_lightning` or `lightning.pytorch`, whose class `base` `kind` extends, by its name; None if neither's."""
    for parent in kind.__mro__:
        root = parent.__module__.partition(".")[0]
        if parent.__name__ == base and root in LIGHTNING:
            return LIGHTNING[root]
    return None


def _is_network(target: object, network: type) -> bool:
    return isinstance(target, type) and issubclass(target, network)


def _returned_by(target: Callable[..., object]) -> object:
    """What a function's return annotation says; None if it can't be told: an annotation may hold any expression."""
    try:
        return get_type_hints(target).get("return")
    except Exception:
        return None
