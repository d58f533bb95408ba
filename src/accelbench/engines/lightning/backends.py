"""How Lightning runs on each kind of device: copying, waiting, time stamps, and what really ran."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from lightning_fabric.accelerators import XLAAccelerator
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor
from torch.optim import Optimizer

from accelbench.devices import cpu
from accelbench.engines.cell_run import BaseBackend
from accelbench.engines.lightning import denormals, spmd, xla, xla_ranks
from accelbench.engines.lightning.global_state import Held, restore, values_of_a_cell
from accelbench.engines.lightning.ranks import NetworkDDP, Ranks
from accelbench.errors import UnsupportedError
from accelbench.measuring.runner import Compiles
from accelbench.schema.vocab import XLA, Device


class Backend(BaseBackend):
    """The CPU. Other devices override what differs."""

    accelerator = "cpu"
    torch_type = "cpu"
    fixed_shapes = False  # whether each new shape, such as a short last batch, is compiled
    fused = False  # whether a step is recorded and run as a whole
    flushes_denormals = False
    held: Held | None = None  # the settings of the cell, once they are set

    def __init__(self) -> None:
        # Else Lightning imports torch_xla to look for a TPU, whatever the device: that takes 1.5 s and replaces parts
        # of torch.nn.
        XLAAccelerator.is_available = staticmethod(lambda: False)
        self.count_compiles: Callable[[], Compiles] = Compilations()  # replaced with the option `compile`

    def prepare(self, allow_tf32: bool) -> None:
        """Sets what is global in PyTorch and the device's library, for one cell."""
        restore(values_of_a_cell(allow_tf32=allow_tf32))
        self.held = Held()

    def flush_denormals(self) -> None:
        """Has the CPU compute with 0 instead of denormal numbers; `changed` checks that all threads do."""
        denormals.flush()
        self.flushes_denormals = True

    def hold(self, dtype: torch.dtype) -> None:
        """Sets it again, just before the first step: the user's code may have changed it. `changed` compares with it.

        Without `prepare`, in the user's own process, the settings are the present ones.

        Args:
            dtype: of new tensors.
        """
        self.held = self.held or Held()
        self.held.again(dtype)

    def read_back(self) -> str | None:
        """PyTorch's, if they are held."""
        return None if self.held is None else "PyTorch's global settings, its threads among them"

    def changed(self) -> list[str]:
        """What is not as it was before the first step (nothing if `hold` was not called), or as it was asked for."""
        found = self.held.changed() if self.held is not None else []
        if self.flushes_denormals and not denormals.are_flushed():
            found.append(denormals.NOT_FLUSHED)
        return found

    def notes(self) -> Iterator[str]:
        """What the user's code had set, and `hold` set back."""
        if self.held is not None and self.held.overridden:
            yield f"its code set {', '.join(self.held.overridden)}; it was measured with accelbench's settings"

    def device(self) -> torch.device:
        """The device that tensors are put on."""
        return torch.device(self.torch_type)

    def seed(self, number: int) -> None:
        """Seeds the device's random numbers, if `torch.manual_seed` does not."""

    def place(self, device: torch.device, rank: int) -> str:
        """Identifies the device among those of all ranks."""
        return f"{device}, rank {rank}"

    def put(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The batch on the device; may return before the copy is done."""
        device = self.device()
        return tuple(tensor.to(device, non_blocking=True) for tensor in batch)

    def gather(self, output: Any) -> Any:
        """The output, on the device that it is read from, once the step has run."""
        return output

    def strategy(self) -> DDPStrategy:
        """Lightning's strategy for several ranks."""
        return NetworkDDP()

    def reduce_gradients(self, optimizer: Optimizer) -> None:
        """Averages the gradients over the ranks, if DDP does not."""

    def num_devices(self) -> int:
        """The number of devices that batches were really divided among."""
        return 1

    def stamp(self) -> Any:
        """A time stamp for `between`."""
        return time.perf_counter()

    def between(self, start: Any, end: Any) -> float:
        """Seconds between two stamps that the device has reached."""
        seconds: float = end - start
        return seconds

    def end_step(self) -> None:
        """Launches the step, on devices that record steps before they run them."""

    def compiles(self) -> Compiles:
        """The number of compilations so far, and their seconds."""
        return self.count_compiles()

    def cudnn_benchmark(self) -> bool | None:
        """Whether cuDNN tries its algorithms to choose one; None without cuDNN."""
        return None

    def device_name(self) -> str | None:
        """The hardware's name; None if only `devices.registry` knows it."""
        return cpu.name()

    def ran_on(self, torch_type: str) -> str:
        """The word in `vocab.Device` for what torch calls `torch_type`."""
        return {"cuda": Device.gpu}.get(torch_type, torch_type)


class Cuda(Backend):
    """One NVIDIA GPU.

    Args:
        index: of the GPU among the visible ones.
    """

    accelerator = torch_type = "cuda"
    on_host = False

    def __init__(self, index: int = 0) -> None:
        super().__init__()
        self.index = index

    def prepare(self, allow_tf32: bool) -> None:
        """Chooses the GPU too, and forgets its peak of memory.

        Raises:
            UnsupportedError: the installed torch has no code for this GPU.
        """
        if torch.cuda.is_available():
            name, capability = torch.cuda.get_device_name(self.index), torch.cuda.get_device_capability(self.index)
            check_has_code(name, capability, torch.cuda.get_arch_list())
        torch.cuda.set_device(self.index)
        super().prepare(allow_tf32)
        torch.cuda.reset_peak_memory_stats()

    def place(self, device: torch.device, rank: int) -> str:
        """The GPU's unique id, on any host."""
        return str(torch.cuda.get_device_properties(device).uuid)

    def wait(self) -> None:
        """Waits for every stream."""
        torch.cuda.synchronize()

    def stamp(self) -> Any:
        """An event in the stream; nothing is waited for."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        """From the device's clock."""
        milliseconds: float = start.elapsed_time(end)
        return milliseconds / 1000

    def peak_memory_bytes(self) -> int | None:
        """The most memory that tensors took."""
        return torch.cuda.max_memory_allocated()

    def cudnn_benchmark(self) -> bool | None:
        """The current setting, whoever set it."""
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
        """Makes fp32 multiply in fp32: by default a TPU casts to bf16 first."""
        if self.num_asked > 1:
            spmd.start(self.num_asked)
        super().prepare(allow_tf32)
        xla.multiply_precisely()

    def hold(self, dtype: torch.dtype) -> None:
        """XLA's matrix precision too."""
        super().hold(dtype)
        xla.multiply_precisely()

    def changed(self) -> list[str]:
        """XLA's matrix precision too."""
        return [*super().changed(), *xla.changed_precision()]

    def seed(self, number: int) -> None:
        """Seeds torch_xla, which starts from the same state in each process."""
        xla.seed(number)

    def put(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The batch, divided among the devices if there are several."""
        if self.num_asked == 1:
            return super().put(batch)
        divided = spmd.put(batch, self.device())
        if self.num_parts == 1:
            self.num_parts = spmd.num_parts(divided[0])
        return divided

    def gather(self, output: Any) -> Any:
        """The whole output, on each device if there are several."""
        return output if self.num_asked == 1 else spmd.gather(output)

    def num_devices(self) -> int:
        """The number of parts that XLA divided the batches into."""
        return self.num_parts

    def fallbacks(self) -> list[str]:
        """From torch_xla's counters."""
        return xla.fallbacks()

    def wait(self) -> None:
        """Waits for what was launched (`torch_xla.sync(wait=True)` does not, on the CPU)."""
        xla.wait()

    def end_step(self) -> None:
        """Launches what the step recorded."""
        xla.launch()

    def compiles(self) -> Compiles:
        """From torch_xla's counters."""
        return xla.compiles()

    def peak_memory_bytes(self) -> int | None:
        """From PJRT; None on the CPU."""
        return xla.peak_memory_bytes()

    def device_name(self) -> str | None:
        """PJRT's name for the hardware, such as `TPU v4`; None on the CPU."""
        return xla.device_name()

    def ran_on(self, torch_type: str) -> str:
        """`tpu` only if PJRT reports that it drives one."""
        if torch_type != "xla":
            return torch_type
        return Device.tpu if xla.device_name() else Device.xla_cpu


class XlaRank(Xla):
    """One of several XLA devices with one process each."""

    def __init__(self, device: Device, ranks: Ranks) -> None:
        super().__init__(device)
        self.ranks = ranks

    def prepare(self, allow_tf32: bool) -> None:
        """Joins the processes first: nothing may be on the device before."""
        xla_ranks.join(self.ranks)
        super().prepare(allow_tf32)

    def strategy(self) -> DDPStrategy:
        """Lightning's XLAStrategy, in a process that another launcher started."""
        return xla_ranks.strategy()

    def place(self, device: torch.device, rank: int) -> str:
        """PJRT's number for the device, unique on all hosts."""
        return xla_ranks.place()

    def fallbacks(self) -> list[str]:
        """The fallbacks of the steps, without the broadcast of Lightning's loop before each of its items."""
        return [name for name in super().fallbacks() if name != xla_ranks.LOOP_BROADCAST]

    def reduce_gradients(self, optimizer: Optimizer) -> None:
        """Averages the gradients with XLA, within the step."""
        xla_ranks.reduce_gradients(optimizer)


def backend_for(device: Device, num_devices: int = 1, ranks: Ranks | None = None) -> Backend:
    """The backend of this rank's device, or of all devices if one process drives them.

    Args:
        device: the kind of device.
        num_devices: how many devices compute the cell.
        ranks: the processes of the cell; None for a single process.
    """
    ranks = ranks or Ranks(1)
    if device == Device.gpu:
        return Cuda(ranks.local_rank)
    if device not in XLA:
        return Backend()
    return XlaRank(device, ranks) if ranks.num > 1 else Xla(device, num_devices)


class Compilations:
    """Counts the graphs that this process compiles from now on. It imports nothing of torch.compile."""

    def __init__(self) -> None:
        self._before = _so_far()

    def __call__(self) -> Compiles:
        """Their number, and the seconds that compiling took, including those of backward passes."""
        (num, seconds), (earlier, earlier_s) = _so_far(), self._before
        return max(0, num - earlier), max(0.0, seconds - earlier_s)  # the user's code may have cleared the counters


def _so_far() -> Compiles:
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return 0, 0.0
    return utils.counters["stats"]["unique_graphs"], utils.calculate_time_spent()["total_wall_time"]


def check_has_code(name: str, capability: tuple[int, int], arch_list: Sequence[str]) -> None:
    """Raises an UnsupportedError if torch has no code for a GPU.

    Args:
        name: of the GPU.
        capability: its compute capability, (major, minor).
        arch_list: what torch was compiled for (`torch.cuda.get_arch_list`): `sm_80` is code for compute capability
            8.0, which runs on 8.x with x >= 0; `compute_80` is PTX, which every newer GPU compiles for itself. With a
            suffix, both are for fewer GPUs: `a` for this capability alone, `f` for its major version.
    """
    if not arch_list or any(_runs_on(arch, capability) for arch in arch_list):
        return
    raise UnsupportedError(
        f"{name} has compute capability {capability[0]}.{capability[1]}, for which the installed torch has no code: it "
        f"has {', '.join(arch_list)}; install a build of torch for this GPU, or use device=cpu"
    )


def _runs_on(arch: str, capability: tuple[int, int]) -> bool:
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch)
    if match is None:
        return False
    kind, major, minor, suffix = match.groups()
    built_for = int(major), int(minor)
    if suffix == "a":
        return capability == built_for
    return capability >= built_for and (capability[0] == built_for[0] or (kind == "compute" and not suffix))
