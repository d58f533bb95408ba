"""Imports and checks the user's classes and functions, such as the network `model.target`.

An import runs the user's code. Therefore only the process of a cell imports the user's code.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, get_type_hints

from accelbench.errors import UserError
from accelbench.schema.cell import ModelSpec

EXAMPLE = "my_package.nets.MyNet"
# Root package of Lightning -> the package that defines LightningModule and Trainer.
LIGHTNING = {"lightning": "lightning.pytorch", "pytorch_lightning": "pytorch_lightning"}


def check_path(flag: str, path: str) -> None:
    """Raises UserError if `path`, the value of the setting `flag`, is not a dotted path.

    Also raises UserError if the path begins with a module of Python's standard library.
    """
    root, dot, _ = path.partition(".")
    if not dot or path.endswith(".py") or not all(part.isidentifier() for part in path.split(".")):
        raise UserError(
            f"{flag}={path}: should be a dotted path that Python can import here, such as {flag}={EXAMPLE}"
        )
    if root in sys.stdlib_module_names:
        why = f"{root} is a module of Python's standard library: give your module another name"
        raise UserError(f"{flag}={path}: {why}")


def import_path(flag: str, path: str) -> Callable[..., Any]:
    """Imports the class or function at the dotted path `path`, but does not call it. `flag` is the setting's name.

    Raises UserError if there is no class or function at `path`, or if it belongs to Python's standard library.
    """
    check_path(flag, path)
    module, _, name = path.rpartition(".")
    try:
        target: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{flag}={path}: can't be imported ({error})") from error
    if not callable(target):
        raise UserError(
            f"{flag}={path}: should be a class or a function, not of type {type(target).__name__}"
        )
    function = target
    while isinstance(function, partial):
        function = function.func
    # A method of a built-in object has no module.
    home = getattr(function, "__module__", None) or type(function).__module__
    if home.partition(".")[0] in sys.stdlib_module_names:
        raise UserError(
            f"{flag}={path}: it is part of Python's standard library: name a class or function of your own"
        )
    return target  # type: ignore[no-any-return]


def check_call(named: str, function: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Raises UserError if `function` does not accept these arguments. `named` is the beginning of the message."""
    with suppress(ValueError):  # a callable without a signature is not checked
        try:
            inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            raise UserError(f"{named}: {error}") from error


def import_target(model: ModelSpec, network: type, named: str) -> Callable[..., object]:
    """Imports the class or function `model.target`.

    `network` is the framework's base class of networks. `named` is its name in messages. Raises UserError if the import
    fails. If `model.factory` is false, the target must be a subclass of `network`, or a function whose return
    annotation is such a subclass. If it is neither, raises UserError.
    """
    target = import_path("model.target", model.definition)
    if not (model.factory or _is_network(target, network) or _is_network(_returned_by(target), network)):
        why = f"is neither a subclass of {named} nor a function annotated to return such a subclass"
        raise UserError(
            f"model.target={model.definition}: {why}: if it returns a network, set model.factory=true"
        )
    return target


def lightning_package(kind: type, base: str) -> str | None:
    """Returns the package that defines the Lightning class `base`, if `kind` is derived from this class.

    The package is `lightning.pytorch` or `pytorch_lightning`. Returns None if `kind` is not derived from `base`.
    """
    for parent in kind.__mro__:
        root = parent.__module__.partition(".")[0]
        if parent.__name__ == base and root in LIGHTNING:
            return LIGHTNING[root]
    return None


def _is_network(target: object, network: type) -> bool:
    return isinstance(target, type) and issubclass(target, network)


def _returned_by(target: Callable[..., object]) -> object:
    """Returns a function's return annotation. Returns None if it is missing or can't be evaluated."""
    try:
        return get_type_hints(target).get("return")
    except Exception:
        return None
