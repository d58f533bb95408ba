"""A function of the user's, measured in its own process. On the CPU it must not use a GPU, which nothing waits for."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from lightning_fabric.accelerators import XLAAccelerator
from torch.autograd.profiler import profile

from accelbench.api.live.network import kept, result
from accelbench.engines.cell_run import CellRun, Observed
from accelbench.engines.lightning.backends import Backend, backend_for
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import Device

USED = (
    "device='cpu': the function used the GPU, and its time on the CPU is not that of its work: use device='gpu', which "
    "waits for it"
)


def _is_initialised() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _num_allocations() -> int:
    """Tensors that were put on GPUs since the process started."""
    if not _is_initialised():
        return 0
    stats = (torch.cuda.memory_stats(index) for index in range(torch.cuda.device_count()))
    return sum(each.get("allocation.all.allocated", 0) for each in stats)


def _runs_kernels(function: Callable[[], object]) -> bool:
    torch.cuda.synchronize()
    with profile(use_device="cuda") as profiled:  # type: ignore[no-untyped-call]
        function()
        torch.cuda.synchronize()
    return any(event.self_device_time_total for event in profiled.key_averages())


class FunctionRun(CellRun):
    """A run of a function without arguments, one call of which is a step; the cell's device is waited for."""

    backend: Backend

    def __init__(self, cell: Cell, function: Callable[[], object], backend: Backend) -> None:
        super().__init__(cell, Path(), backend)
        self.function, self.build_s, self.num_params = function, 0.0, 0

    @property
    def fetches_inside(self) -> bool:
        return True  # what moves data, if anything does, is part of the function

    def new_step(self) -> Any:
        return _Call(self.function, self.cell.batch_size)

    def run_steps(self) -> None:
        num_before = _num_allocations()
        super().run_steps()
        self.timing.copy_out_s = []  # the function has no output to copy
        # To see kernels, the function is called once more, but only in a process that uses a GPU.
        if self.cell.device == Device.cpu and (
            _num_allocations() != num_before or (_is_initialised() and _runs_kernels(self.function))
        ):
            raise UserError(USED)

    def observe(self) -> Observed:
        return Observed(  # what the function computes is unknown
            device=self.cell.device,
            device_name=self.device_name(),
            precision=self.cell.precision,
            num_devices=1,
            threads=torch.get_num_threads() if self.cell.device == Device.cpu else None,
        )

    def warnings(self) -> Iterator[str]:
        yield from kept()


class _Call:
    def __init__(self, function: Callable[[], object], samples: int) -> None:
        self.function, self.samples = function, samples

    def fetch(self) -> None:
        pass

    def copy_in(self, batch: None) -> None:
        pass

    def compute(self, batch: None) -> object:
        return self.function()

    def copy_out(self, result: object) -> None:
        pass

    def num_samples(self, batch: None) -> int:
        return self.samples


def measure_function(called: Callable[[], object], cell: Cell) -> Measurement:
    """Measures calls of `called`, and waits for the cell's device; PyTorch's state is what the function finds."""
    finds_tpus = vars(XLAAccelerator)["is_available"]
    try:
        return result(FunctionRun(cell, called, backend_for(cell.device)))
    finally:
        XLAAccelerator.is_available = finds_tpus
