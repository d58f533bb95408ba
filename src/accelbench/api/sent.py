"""Runs the network or the function that `accelbench.measure` has sent to the cell's process.

If it is a network, the cell's model settings name four functions of this module: `network`, `batch`, `loss` and
`samples`. The engine calls them as it calls functions of the user.
"""

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncContextDecorator, ContextDecorator
from dataclasses import fields, is_dataclass
from functools import cache, partial
from inspect import isroutine
from multiprocessing.pool import AsyncResult
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from accelbench.devices import malloc_thresholds
from accelbench.engines.cell_run import CellRun
from accelbench.engines.pytorch import engine
from accelbench.engines.pytorch.backends import Backend, backend_for
from accelbench.engines.pytorch.structure import mapped
from accelbench.engines.pytorch.weights import replacing, torch_load
from accelbench.errors import UserError
from accelbench.project import SENT
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Observed
from accelbench.schema.vocab import Device

# Types of results whose computation has not started, or may still run.
UNFINISHED = (
    Awaitable,
    AsyncIterator,
    Iterator,
    ContextDecorator,
    AsyncContextDecorator,
    Future,
    AsyncResult,
    threading.Thread,
    BaseProcess,
    subprocess.Popen,
)
MOST_PENDING = 32  # results that are kept before the oldest is waited for
_sent: dict[str, bytes] = {}  # name of an argument of `measure` -> its pickle


def run(cell: Cell, data_folder: Path) -> Measurement | None:
    """Measures the sent object; see `engines.pytorch.engine.run`."""
    with open(data_folder / SENT, "rb") as file:
        folder, sys.path[:] = pickle.load(file)
        os.chdir(folder)
        _sent.update(pickle.load(file))
    if "function" not in _sent:
        return engine.run(cell, data_folder)
    backend = backend_for(cell.device)
    backend.use_threads(cell, 1)
    malloc_thresholds.restore()
    return _FunctionRun(cell, _unpickled("function"), backend).measure()


def _unpickled(name: str) -> Any:
    # To read a tensor, pickle calls torch.load, which is blocked for other files while a network is built.
    with replacing(torch_load):
        return pickle.loads(_sent[name])


def network() -> nn.Module:
    """A copy of the network, in host memory."""
    sent: nn.Module = _unpickled("network")
    return sent.to(device="cpu")


def batch(batch_size: int) -> Any:
    """A copy of the batch, in host memory."""
    return mapped(_unpickled("batch"), lambda tensor: tensor.detach().cpu())


@cache
def _loss() -> Any:
    return _unpickled("loss")


def loss(output: Any, batch: Any) -> Any:
    """The user's loss."""
    return _loss()(output, batch)


def samples(batch: Any) -> int:
    """The number of samples that the user set."""
    number: int = _unpickled("samples")
    return number


class _FunctionRun(CellRun):
    """A run of a function. One call is a step. With device=cpu, it must not use a GPU, as no step waits for one."""

    backend: Backend
    fetches_inside = True  # any movement of data is part of the function
    build_s, num_params = 0.0, 0

    def __init__(self, cell: Cell, function: Callable[[], object], backend: Backend) -> None:
        super().__init__(cell, Path(), backend)
        self.function = function
        self.returned = Returned(cell.device)
        wait_for_device = backend.wait

        def wait() -> None:
            self.returned.wait()
            wait_for_device()

        backend.wait = wait  # type: ignore[method-assign]

    def new_step(self) -> Any:
        def nothing(*_: object) -> None: ...

        return SimpleNamespace(
            fetch=nothing,
            copy_in=nothing,
            compute=lambda batch: self.returned.add(self.function()),
            copy_out=nothing,
            num_samples=lambda batch: self.cell.batch_size,
        )

    def run_steps(self) -> None:
        super().run_steps()
        self.timing.copy_out_s = []  # the function has no output to copy
        if self.cell.device == Device.cpu and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            raise UserError(
                "device='cpu': the function used the GPU, so its work may go on when the CPU is done: use "
                "device='gpu', which waits for the GPU"
            )

    def observe(self) -> Observed:
        return Observed(  # the device and precision of the function are unknown
            device=self.cell.device,
            device_name=self.device_name(),
            precision=self.cell.precision,
            num_devices=1,
            threads=torch.get_num_threads() if self.cell.device == Device.cpu else None,
        )


class Returned:
    """The results of a function. Unfinished JAX arrays are waited for. Results such as futures are refused."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.waits: bool | None = None  # whether results must be waited for; None before the first result
        self.pending = deque[Any]()

    def add(self, result: Any) -> None:
        """Adds the result of one call. Raises UserError if its work has not run, or may still run unnoticed."""
        if self.waits is None:
            if isroutine(result) or isinstance(result, partial) or hasattr(result, "__wrapped__"):  # jax.jit has this
                raise UserError(f"measure: the function returns {_name(result)}, which did not run: call it")
            values = list(_values(result))
            self.waits = any(hasattr(value, "block_until_ready") for value in values)
            for value in values:
                self._check(value)
        if self.waits:
            self.pending.append(result)
            if len(self.pending) > MOST_PENDING:
                _wait_for(self.pending.popleft())

    def wait(self) -> None:
        """Waits for all results."""
        while self.pending:
            _wait_for(self.pending.popleft())

    def _check(self, value: Any) -> None:
        graph = getattr(type(value), "__dask_graph__", None)
        is_future = hasattr(type(value), "add_done_callback")
        if isinstance(value, UNFINISHED) or is_future or (graph is not None and graph(value) is not None):
            raise UserError(
                f"measure: the function returns {_name(value)}, which has not run or may still run: await, read, "
                "compute or wait for it in the function, and return the result"
            )
        is_array = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
        if not is_array or not hasattr(type(value), "device"):  # a table's column may be named `device`
            return
        place = str(value.device).lower()
        is_on_gpu = "cuda" in place or "gpu" in place
        if "cpu" not in place and not (is_on_gpu and self.device == Device.gpu):
            problem = f"the function's result is on {place}, which nothing waits for"
            raise UserError(f"device='{self.device}': {problem}{': use device=gpu' if is_on_gpu else ''}")


def _wait_for(result: Any) -> None:
    for value in _values(result):
        if hasattr(value, "block_until_ready"):
            value.block_until_ready()


def _values(value: Any) -> Iterator[Any]:
    """The values in a result, also in nested containers."""
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, tuple | list | set | frozenset):
        parts = list(value)
    elif is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in fields(value)]
    else:
        yield value
        return
    for part in parts:
        yield from _values(part)


def _name(value: Any) -> str:
    return f"an object of type {type(value).__module__}.{type(value).__qualname__}".replace("builtins.", "")
