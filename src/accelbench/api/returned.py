"""What a measured function returns: whether its work ran, and what has to be waited for."""

import contextlib
import functools
import inspect
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import fields, is_dataclass
from itertools import islice
from multiprocessing.pool import AsyncResult
from multiprocessing.process import BaseProcess
from typing import Any

from accelbench.errors import UserError
from accelbench.schema.vocab import Device

# Types of results whose work did not run, or may still run -> what a function should do instead.
INSTEAD: dict[tuple[type, ...], str] = {
    (Awaitable, AsyncIterator, contextlib.AsyncContextDecorator): "awaits it, such as lambda: asyncio.run(work())",
    (Iterator,): "reads it to its end, such as lambda: list(work())",
    (contextlib.ContextDecorator,): "enters it by `with`",
    (Future, AsyncResult): "waits for its result",
    (threading.Thread, BaseProcess, subprocess.Popen): "waits for its end",
}
MOST_PENDING = 32  # results that are kept until they are waited for
MOST_VALUES = 2000  # of one result that are looked at


class Returned:
    """Refuses results that show that nothing ran, and waits for those that another framework still computes."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.known = set[type]()  # types of values that need no look
        self.pending = deque[Any]()

    def add(self, result: Any) -> None:
        """Looks at the result of one call. Raises UserError: the work did not run, or can't be waited for."""
        if type(result) in self.known:
            return
        values = _values(result)
        if values and all(map(_is_function, values)):
            raise UserError(f"measure: the function returns {_name(values[0])}, which did not run: call it")
        for value in values:
            if hasattr(value, "block_until_ready"):
                self.pending.append(value)
                if len(self.pending) > MOST_PENDING:
                    self.pending.popleft().block_until_ready()
            elif type(value) not in self.known:
                self._check(value)
                self.known.add(type(value))

    def wait(self) -> None:
        """Returns when all results are there."""
        while self.pending:
            self.pending.popleft().block_until_ready()

    def _check(self, value: Any) -> None:
        instead = _instead(value)
        if instead is not None:
            if inspect.iscoroutine(value):
                value.close()  # else Python warns that nothing awaited it
            raise UserError(
                f"measure: the function returns {_name(value)}, which has not run or may still run: measure a function "
                f"that {instead}"
            )
        is_array = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
        if not is_array or not hasattr(type(value), "device"):  # a table may have a column of this name
            return
        place = str(value.device).lower()
        if "cuda" in place or "gpu" in place:
            if self.device == Device.cpu:
                raise UserError(f"device='cpu': the function's result is on {place}: use device='gpu', which waits")
        elif "cpu" not in place:
            raise UserError(f"measure: the function's result is on {place}, which nothing waits for")


def _values(result: Any) -> list[Any]:
    """The first values that a result holds, also in containers within it."""
    values = list[Any]()
    inside = [result]
    seen = set[int]()
    while inside and len(values) < MOST_VALUES:
        value = inside.pop()
        parts = _parts(value)
        if parts is None:
            values.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            inside.extend(islice(parts, MOST_VALUES))
    return values


def _parts(value: Any) -> Iterable[Any] | None:
    """The values in a container; None if it is none."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, tuple | list | set | frozenset):
        return value
    jax = sys.modules.get("jax")
    if jax is not None and not hasattr(value, "block_until_ready"):  # it knows further containers
        leaves: list[Any] = jax.tree_util.tree_leaves(value)
        if len(leaves) != 1 or leaves[0] is not value:
            return leaves
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return None


def _instead(value: Any) -> str | None:
    """What a function should do instead of returning `value`; None if it holds a result."""
    for kinds, instead in INSTEAD.items():
        if isinstance(value, kinds):
            return instead
    if hasattr(type(value), "add_done_callback"):  # futures of other libraries
        return "waits for its result"
    graph = getattr(type(value), "__dask_graph__", None)
    if graph is not None and graph(value) is not None:
        return "calls its compute()"
    return None


def _is_function(value: Any) -> bool:
    is_wrapper = callable(value) and hasattr(value, "__wrapped__")  # as of jax.jit
    return inspect.isroutine(value) or isinstance(value, functools.partial) or is_wrapper


def _name(value: Any) -> str:
    return f"an object of type {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")
