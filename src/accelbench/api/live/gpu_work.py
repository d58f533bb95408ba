"""Whether a function that is measured on the CPU uses the GPU, which nothing would wait for."""

from collections.abc import Callable

import torch
from torch.autograd.profiler import profile

USED = (
    "device='cpu': the function used the GPU, and its time on the CPU is not that of its work: use device='gpu', which "
    "waits for it"
)


class GpuWork:
    """What the process's GPUs have done so far. Nothing is started on them."""

    def __init__(self) -> None:
        self._before = _num_allocations()

    def is_of(self, function: Callable[[], object]) -> bool:
        """Whether `function`, which has been measured since, uses a GPU: it took memory there, or runs kernels.

        To see kernels, it is called once more. This happens only in a process that uses a GPU.
        """
        return _num_allocations() != self._before or (_is_initialised() and _runs_kernels(function))


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
