"""Runs the network or the function that `accelbench.measure` has sent to the cell's process.

If it is a network, the cell's model settings name four functions of this module: `network`, `batch`, `loss` and
`samples`. The engine calls them as it calls functions of the user.
"""

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import cache
from inspect import isroutine
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from accelbench.devices import allocators
from accelbench.engines.cell_run import CellRun
from accelbench.engines.pytorch import engine
from accelbench.engines.pytorch.backends import Backend, backend_for
from accelbench.engines.pytorch.structure import leaves_in, mapped
from accelbench.errors import UserError
from accelbench.project import SENT
from accelbench.schema.cell import Cell, Device
from accelbench.schema.measurement import Measurement, Observed

# Types of results whose computation has not started, or may still run.
UNFINISHED = (Awaitable, AsyncIterator, Iterator, threading.Thread, BaseProcess, subprocess.Popen)
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
    allocators.restore_thresholds()
    return _FunctionRun(cell, _unpickled("function"), backend).measure()


def _unpickled(name: str) -> Any:
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
        self.waits: bool | None = None  # whether results must be waited for; None before the first result

    def new_step(self) -> Any:
        def nothing(*_: object) -> None: ...

        return SimpleNamespace(
            fetch=nothing,
            copy_in=nothing,
            compute=lambda batch: self._call(),
            copy_out=nothing,
            num_samples=lambda batch: self.cell.batch_size,
        )

    def _call(self) -> None:
        """Calls the function, and waits until arrays of JAX in its result are computed. Raises UserError."""
        result = self.function()
        if self.waits is None:
            values = list(leaves_in(result))
            for value in values:
                _check(value)
            self.waits = any(hasattr(value, "block_until_ready") for value in values)
        if self.waits:
            for value in leaves_in(result):
                if hasattr(value, "block_until_ready"):
                    value.block_until_ready()

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


def _check(value: Any) -> None:
    """Raises UserError if the work of a value in the function's result has not run, or may still run unnoticed."""
    is_future = hasattr(type(value), "add_done_callback")
    if isroutine(value) or is_future or isinstance(value, UNFINISHED):
        name = f"an object of type {type(value).__module__}.{type(value).__qualname__}".replace(
            "builtins.", ""
        )
        raise UserError(
            f"measure: the function returns {name}, which has not run or may still run: call, await, read or wait for "
            "it in the function, and return the result"
        )
