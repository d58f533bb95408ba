"""How to run on each kind of device through Lightning, and how to wait for it."""

import time
from collections.abc import Callable
from typing import Any

import torch
from lightning_fabric.accelerators import XLAAccelerator
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor
from torch.optim import Optimizer

from accelbench.devices import cpu
from accelbench.engines.cell_run import BaseBackend
from accelbench.engines.lightning import spmd, xla, xla_ranks
from accelbench.engines.lightning.ranks import NetworkDDP, Ranks
from accelbench.measuring.clock import Compiles, no_compiles
from accelbench.schema.vocab import XLA, Device


class Backend(BaseBackend):
    """The CPU. Other devices override what differs."""

    accelerator = "cpu"
    torch_type = "cpu"
    fixed_shapes = False  # whether a short last batch would compile the model anew
    fused = False  # whether a recorded step is run as a whole

    def __init__(self) -> None:
        # With torch_xla installed, Lightning imports it to look for a TPU, for every device: 1.5 s, and the
        # import replaces parts of torch.nn.
        XLAAccelerator.is_available = staticmethod(lambda: False)
        self.count_compiles: Callable[[], Compiles] = no_compiles  # until something compiles

    def prepare(self, allow_tf32: bool) -> None:
        """Sets the device's global switches for one cell."""

    def device(self) -> torch.device:
        """Where tensors are put."""
        return torch.device(self.torch_type)

    def seed(self, number: int) -> None:
        """Seeds the device's random numbers where `torch.manual_seed` does not."""

    def place(self, device: torch.device, rank: int) -> str:
        """What tells the device from those of the other ranks."""
        return f"{device}, rank {rank}"

    def put(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The batch where it is computed; may return before it is there."""
        device = self.device()
        return tuple(tensor.to(device, non_blocking=True) for tensor in batch)

    def gather(self, output: Tensor) -> Tensor:
        """The output where it is read, once the step has run."""
        return output

    def strategy(self) -> DDPStrategy:
        """Lightning's for several ranks."""
        return NetworkDDP()

    def reduce_gradients(self, optimizer: Optimizer) -> None:
        """Averages them over the ranks, where the network around them does not do it."""

    def num_devices(self) -> int:
        """Among how many devices the batches were really divided."""
        return 1

    def stamp(self) -> Any:
        """This moment in the device's work, for `between`."""
        return time.perf_counter()

    def between(self, start: Any, end: Any) -> float:
        """Seconds between two stamps that are past."""
        seconds: float = end - start
        return seconds

    def end_step(self) -> None:
        """Marks the end of a step, for devices that record steps before they run them."""

    def compiles(self) -> Compiles:
        """How many compilations so far, and their seconds."""
        return self.count_compiles()

    def cudnn_benchmark(self) -> bool | None:
        """Whether cuDNN tries its algorithms; None where there is no cuDNN."""
        return None

    def device_name(self) -> str | None:
        """The hardware's name; None where only its registry knows it."""
        return cpu.name()

    def ran_on(self, torch_type: str) -> str:
        """The device's word for what torch calls `torch_type`."""
        return {"cuda": Device.gpu}.get(torch_type, torch_type)


class Cuda(Backend):
    """One NVIDIA GPU.

    Args:
        index: which of the visible ones.
    """

    accelerator = torch_type = "cuda"
    on_host = False

    def __init__(self, index: int = 0) -> None:
        super().__init__()
        self.index = index

    def prepare(self, allow_tf32: bool) -> None:
        """Fixes TF32 as asked: the default would compute "fp32" convolutions in TF32.

        cuDNN chooses its algorithms by rule, as is PyTorch's default: those that win a trial may differ between two
        processes.
        """
        torch.cuda.set_device(self.index)
        torch.backends.cudnn.benchmark = False
        torch.backends.cuda.matmul.allow_tf32 = allow_tf32
        torch.backends.cudnn.allow_tf32 = allow_tf32
        torch.cuda.reset_peak_memory_stats()

    def place(self, device: torch.device, rank: int) -> str:
        """The GPU's own number, on any host."""
        return str(torch.cuda.get_device_properties(device).uuid)

    def wait(self) -> None:
        """Waits for every stream."""
        torch.cuda.synchronize()

    def stamp(self) -> Any:
        """An event in the stream: nothing is waited for."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        """From the device's own clock."""
        milliseconds: float = start.elapsed_time(end)
        return milliseconds / 1000

    def peak_memory_bytes(self) -> int | None:
        """What tensors took at most."""
        return torch.cuda.max_memory_allocated()

    def cudnn_benchmark(self) -> bool | None:
        """As it is set, whoever set it."""
        return torch.backends.cudnn.benchmark

    def device_name(self) -> str | None:
        """Such as `NVIDIA H200`."""
        return torch.cuda.get_device_name()


class Xla(Backend):
    """torch_xla on a TPU, or (`PJRT_DEVICE=CPU`) on the CPU."""

    accelerator = "tpu"
    torch_type = "xla"
    fixed_shapes = fused = True
    on_host = False

    def __init__(self, device: Device, num_asked: int = 1) -> None:
        xla.register_accelerator(device)
        self.num_asked = num_asked
        self.num_parts = 1

    def prepare(self, allow_tf32: bool) -> None:
        """Has fp32 multiply in fp32: by default a TPU casts it down to bf16 first."""
        if self.num_asked > 1:
            spmd.start(self.num_asked)
        xla.multiply_precisely()

    def seed(self, number: int) -> None:
        """torch_xla starts from the same state in each process."""
        xla.seed(number)

    def put(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The batch, divided where there are several devices."""
        if self.num_asked == 1:
            return super().put(batch)
        there = spmd.put(batch, self.device())
        if self.num_parts == 1:
            self.num_parts = spmd.num_parts(there[0])
        return there

    def gather(self, output: Tensor) -> Tensor:
        """On each of several devices."""
        return output if self.num_asked == 1 else spmd.gather(output)

    def num_devices(self) -> int:
        """As XLA has divided the batches."""
        return self.num_parts

    def fallbacks(self) -> list[str]:
        """From torch_xla's own counters."""
        return xla.fallbacks()

    def wait(self) -> None:
        """Waits for what was recorded and launched (`torch_xla.sync(wait=True)` does not, on the CPU)."""
        xla.wait()

    def end_step(self) -> None:
        """Launches what the step recorded."""
        xla.launch()

    def compiles(self) -> Compiles:
        """From torch_xla's own counters."""
        return xla.compiles()

    def peak_memory_bytes(self) -> int | None:
        """From PJRT; None on the CPU."""
        return xla.peak_memory_bytes()

    def device_name(self) -> str | None:
        """PJRT's name of the hardware, such as `TPU v4`; None on the CPU."""
        return xla.device_name()

    def ran_on(self, torch_type: str) -> str:
        """`tpu` only where PJRT itself says that it drives one."""
        if torch_type != "xla":
            return torch_type
        return Device.tpu if xla.device_name() else Device.xla_cpu


class XlaRank(Xla):
    """One of several XLA devices that have a process each."""

    def __init__(self, device: Device, ranks: Ranks) -> None:
        super().__init__(device)
        self.ranks = ranks

    def prepare(self, allow_tf32: bool) -> None:
        """Joins the others first: nothing may be on the device before."""
        xla_ranks.join(self.ranks)
        super().prepare(allow_tf32)

    def strategy(self) -> DDPStrategy:
        """Lightning's XLAStrategy, in a process that is there already."""
        return xla_ranks.strategy()

    def place(self, device: torch.device, rank: int) -> str:
        """PJRT's number of the device, on any host."""
        return xla_ranks.place()

    def fallbacks(self) -> list[str]:
        """Those of the steps: before each pass, Lightning's loop tells the other processes whether to stop."""
        return [name for name in super().fallbacks() if name != xla_ranks.TOLD]

    def reduce_gradients(self, optimizer: Optimizer) -> None:
        """By XLA, within the step."""
        xla_ranks.reduce_gradients(optimizer)


def backend_for(device: Device, num_devices: int = 1, ranks: Ranks | None = None) -> Backend:
    """The backend of this rank's device, or of all devices where one process drives them.

    Args:
        device: what computes.
        num_devices: how many compute the cell.
        ranks: this process among those of its cell; None where it is alone.
    """
    ranks = ranks or Ranks(1)
    if device == Device.gpu:
        return Cuda(ranks.local_rank)
    if device not in XLA:
        return Backend()
    return XlaRank(device, ranks) if ranks.num > 1 else Xla(device, num_devices)
