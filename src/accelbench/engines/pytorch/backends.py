"""How PyTorch runs on each kind of device: copying, waiting, time stamps, and what really ran."""
# torch_xla is imported with a backend for XLA: its import replaces parts of torch.nn, which only a cell there may do.

import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from accelbench.devices import cpu, packages
from accelbench.devices.tpu import TORCH_TPU
from accelbench.engines.backend import BaseBackend
from accelbench.engines.pytorch import global_state
from accelbench.engines.pytorch.global_state import Held
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.engines.pytorch.structure import mapped, tensors_in
from accelbench.errors import UnsupportedError
from accelbench.measuring.runner import Compiles
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import XLA, Device, Precision

MESH_AXIS = "data"
NO_FALLBACKS = ("aten::_local_scalar_dense",)  # the operator of `.item()`, which is no fallback


class Backend(BaseBackend):
    """The CPU. Other devices override what differs."""

    torch_type = "cpu"
    joined_by = "gloo"  # torch.distributed's word for what joins several processes
    fused = False  # whether a step is recorded and run as a whole, compiled for each new shape of a batch
    num_devices = 1  # that batches were really divided among
    flushes_denormals = False
    held: Held | None = None  # the settings of the cell, once they are set

    def __init__(self) -> None:
        self.count_compiles: Callable[[], Compiles] = Compilations()

    def begin(self, cell: Cell, num_here: int = 1) -> None:
        """Begins a cell in this process, one of `num_here` of its processes on this machine."""
        self.flushes_denormals = cell.options.flush_denormals
        if self.flushes_denormals:  # before PyTorch starts threads, which inherit it; `changed` checks that all do
            global_state.flush_denormals()
        self.use_threads(cell, num_here)
        self.prepare(allow_tf32=cell.precision == Precision.tf32)

    def use_threads(self, cell: Cell, num_here: int) -> None:
        """Sets the number of CPU threads: as asked for, else one per core, divided among the processes."""
        num = cpu.usable_cores() // num_here if cell.threads is None else cell.threads
        global_state.use_threads(max(1, num // cell.num_instances))

    def prepare(self, allow_tf32: bool) -> None:
        """Sets what is global in PyTorch and the device's library, for one cell."""
        global_state.restore(global_state.values_of_a_cell(allow_tf32=allow_tf32))
        self.held = Held()

    def hold(self, dtype: torch.dtype) -> None:
        """Sets it again, with `dtype` for new tensors, just before the first step; `changed` compares with it."""
        if self.held is not None:
            self.held.again(dtype)  # the user's code may have changed it

    def read_back(self) -> str | None:
        return None if self.held is None else "PyTorch's global settings, its threads among them"

    def changed(self) -> list[str]:
        """What is not as it was before the first step (nothing if `hold` was not called), or as it was asked for."""
        changes = self.held.changed() if self.held is not None else []
        if self.flushes_denormals and not global_state.denormals_are_flushed():
            changes.append(global_state.NOT_FLUSHED)
        return changes

    def notes(self) -> Iterator[str]:
        """What the user's code had set, and `hold` set back."""
        if self.held is not None and self.held.overridden:
            yield f"its code set {', '.join(self.held.overridden)}; it was measured with accelbench's settings"

    def device(self) -> torch.device:
        """The device that tensors are put on."""
        return torch.device(self.torch_type)

    def seed(self, number: int) -> None:
        """Seeds the device's random numbers, if `torch.manual_seed` does not."""

    def put(self, batch: Any) -> Any:
        """The batch on the device; may return before the copy is done."""
        device = self.device()
        return mapped(batch, lambda tensor: tensor.to(device, non_blocking=True))

    def gather(self, output: Any) -> Any:
        """The output, whole on the device that it is read from, once the step has run."""
        return output

    def place(self, network: nn.Module) -> nn.Module:
        """The network on the device."""
        return network.to(self.device())

    def in_parallel(self, network: nn.Module) -> nn.Module:
        """The network in one of several processes, which average their gradients."""
        return DistributedDataParallel(network)

    def reduce_gradients(self, optimizer: Optimizer) -> None:
        """Averages the gradients over the ranks, if DDP does not."""

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
        return self.count_compiles()

    def device_name(self) -> str | None:
        return cpu.name()

    def ran_on(self, torch_type: str) -> str:
        """The word in `vocab.Device` for what torch calls `torch_type`."""
        return Device.gpu if torch_type == "cuda" else torch_type


class Accelerator(Backend):
    """A device that torch itself drives, through `torch.accelerator`: Intel's, Apple's, or a TPU through torch_tpu."""

    on_host, queues = False, True

    def __init__(self, device: Device, index: int = 0) -> None:
        super().__init__()
        self.torch_type, self.index = device.value, index
        # A cell's process loads what drives the device: its host, which is forked, must not have started that.
        for entry in entry_points(group="torch.backends", name=f"torch_{device}"):
            entry.load()()
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        if accelerator is None or accelerator.type != device:
            raise UnsupportedError(f"device={device}: torch {torch.__version__} finds none here")

    def prepare(self, allow_tf32: bool) -> None:
        """Chooses the device too, and forgets its peak of memory."""
        torch.accelerator.set_device_index(torch.device(self.torch_type, self.index))
        super().prepare(allow_tf32)
        with suppress(RuntimeError):  # not every device keeps one
            torch.accelerator.reset_peak_memory_stats(self.torch_type)

    def put(self, batch: Any) -> Any:
        """The batch on the device, once it is there: not every device may copy later from memory that isn't pinned."""
        return mapped(batch, lambda tensor: tensor.to(self.device()))

    def wait(self) -> None:
        torch.accelerator.synchronize(self.torch_type)

    def stamp(self) -> Any:
        """An event in the stream; nothing is waited for."""
        event = torch.Event(self.torch_type, enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        milliseconds: float = start.elapsed_time(end)
        return milliseconds / 1000

    def peak_memory_bytes(self) -> int | None:
        with suppress(RuntimeError):
            return torch.accelerator.max_memory_allocated(self.torch_type)
        return None

    def device_name(self) -> str | None:
        name = getattr(torch.get_device_module(self.torch_type), "get_device_name", None)
        return None if name is None else str(name())


class Cuda(Accelerator):
    """The NVIDIA GPU with number `index` among the visible ones."""

    torch_type, joined_by = "cuda", "nccl"

    def __init__(self, index: int = 0) -> None:
        Backend.__init__(self)
        self.index = index

    put = Backend.put

    def in_parallel(self, network: nn.Module) -> nn.Module:
        # In a stream of its own, as PyTorch's notes on CUDA ask for.
        with torch.cuda.stream(torch.cuda.Stream()):
            return DistributedDataParallel(network, device_ids=[self.index])


class Xla(Backend):
    """torch_xla on a TPU, or (`PJRT_DEVICE=CPU`) on the CPU.

    One process may drive `num_asked` devices as one (SPMD): batches are divided among them, each has all weights, and
    XLA partitions the step and sums the gradients. Or each of the `ranks` drives one device, on one host or on a whole
    TPU pod: PJRT joins the processes, which its CPU client can't (pytorch/xla#5342).
    """

    torch_type = "xla"
    fused = True
    on_host, queues = False, True

    def __init__(self, device: Device, num_asked: int = 1, ranks: Ranks | None = None) -> None:
        import torch_xla.backends
        import torch_xla.core.xla_model
        import torch_xla.debug.metrics
        import torch_xla.distributed.spmd
        import torch_xla.runtime

        self.torch_xla, self.model, self.runtime = torch_xla, torch_xla.core.xla_model, torch_xla.runtime
        self.metrics, self.spmd = torch_xla.debug.metrics, torch_xla.distributed.spmd
        self.num_asked, self.ranks = num_asked, ranks

    def prepare(self, allow_tf32: bool) -> None:
        """Sets XLA's matrix precision too: by default a TPU multiplies fp32 in bf16."""
        if self.ranks is not None:
            self._join(self.ranks)
        elif self.num_asked > 1:  # before anything is on a device
            self.runtime.use_spmd()
        super().prepare(allow_tf32)
        self.torch_xla.backends.set_mat_mul_precision("highest")

    def use_threads(self, cell: Cell, num_here: int) -> None:
        if cell.threads is not None:
            raise UnsupportedError(f"threads={cell.threads}: XLA takes no limit on its threads")
        if cell.device == Device.xla_cpu:
            global_state.use_threads(1)  # torch only gathers batches: more threads would take cores from XLA

    def _join(self, ranks: Ranks) -> None:
        """Joins the processes, before anything is on the device. libtpu would wait for chips without a process."""
        from torch_xla._internal import pjrt, tpu

        flag = "engine.xla_processes=true"
        if self.runtime.device_type() == "TPU" and (chips := tpu.num_available_chips()) != ranks.num_here:
            reason = f"this host has {chips} chips, which take part all or none, for {ranks.num_here} processes"
            raise UnsupportedError(f"{flag}: {reason}: use devices={chips} for each host")
        pjrt.initialize_multiprocess(ranks.local_rank, ranks.num_here)
        num_joined = self.runtime.world_size()
        num_here = self.runtime.addressable_device_count()
        if (num_joined, num_here) != (ranks.num, 1):
            reason = f"PJRT joined {num_joined} devices, and this process has {num_here}"
            raise UnsupportedError(f"{flag}: {reason}, where devices={ranks.num} have a process each")

    def hold(self, dtype: torch.dtype) -> None:
        super().hold(dtype)
        self.torch_xla.backends.set_mat_mul_precision("highest")

    def changed(self) -> list[str]:
        changes = super().changed()
        now = self.torch_xla.backends.get_mat_mul_precision()
        if now != "highest":
            changes.append(f"its code changed torch_xla's matrix precision from highest to {now} while it was measured")
        return changes

    def seed(self, number: int) -> None:
        """Seeds torch_xla, which starts from the same state in each process."""
        self.model.set_rng_state(number)

    def put(self, batch: Any) -> Any:
        """The batch, divided among the devices if there are several; unchanged if it is on them already."""
        if self.num_asked == 1:
            return super().put(batch)
        if next(tensors_in(batch)).device.type != "xla":
            batch = mapped(batch, self._divided)
        if self.num_devices == 1:
            self.num_devices = num_parts(next(tensors_in(batch)))
        return batch

    def _divided(self, tensor: Tensor) -> Any:
        spec = self.spmd.ShardingSpec(self.spmd.get_1d_mesh(MESH_AXIS), (MESH_AXIS,) + (None,) * (tensor.dim() - 1))
        return self.model.send_cpu_data_to_device([tensor], self.device(), spec)[0]

    def gather(self, output: Any) -> Any:
        """The whole output: joining a divided one when it is read, torch_xla would compile again each time."""
        for tensor in tensors_in(output) if self.num_asked > 1 else ():
            self.spmd.mark_sharding(tensor, self.spmd.get_1d_mesh(MESH_AXIS), (None,) * tensor.dim())
        return output

    def place(self, network: nn.Module) -> nn.Module:
        """The network on the device; layers that share a weight still do, of which torch makes one for each there."""
        names: dict[int, list[str]] = defaultdict(list)
        for name, weight in network.named_parameters(remove_duplicate=False):
            names[id(weight)].append(name)
        network = super().place(network)
        for first, *others in names.values():
            for name in others:
                owner, _, attribute = name.rpartition(".")
                setattr(network.get_submodule(owner), attribute, network.get_parameter(first))
        return network

    def in_parallel(self, network: nn.Module) -> nn.Module:
        return network  # `reduce_gradients` averages them

    def reduce_gradients(self, optimizer: Optimizer) -> None:
        """Averages the gradients within the step, as torch_xla's `optimizer_step` does."""
        if self.ranks is not None:
            self.model.reduce_gradients(optimizer)

    def fallbacks(self) -> list[str]:
        """The operators that XLA does not have, such as `aten::nonzero`, from torch_xla's counters."""
        return sorted(name for name in self.metrics.executed_fallback_ops() if name not in NO_FALLBACKS)

    def wait(self) -> None:
        """Waits for what was launched (`torch_xla.sync(wait=True)` does not, on the CPU)."""
        self.model.wait_device_ops()

    def end_step(self) -> None:
        """Compiles what the step recorded, if it is new, and launches it."""
        self.torch_xla.sync()

    def compiles(self) -> Compiles:
        data = self.metrics.metric_data("CompileTime")
        return (data[0], data[1] / 1e9) if data else (0, 0.0)  # it is kept in nanoseconds

    def peak_memory_bytes(self) -> int | None:
        try:
            peak = self.model.get_memory_info().get("peak_bytes_used")
        except RuntimeError:  # PJRT's CPU client has no memory statistics
            return None
        return int(peak) if peak else None

    def device_name(self) -> str | None:
        """PJRT's name for the hardware, such as `TPU v4`; None on the CPU, and of devices driven as one."""
        if self.runtime.device_type() != "TPU" or self.num_asked > 1:
            return None
        return str(self.torch_xla._XLAC._xla_device_kind(str(self.torch_xla.device())))

    def ran_on(self, torch_type: str) -> str:
        """`tpu` only if PJRT reports that it drives one."""
        if torch_type != "xla":
            return torch_type
        return Device.tpu if self.runtime.device_type() == "TPU" else Device.xla_cpu


def num_parts(tensor: Tensor) -> int:
    """The number of devices that XLA divides the first dimension of `tensor` among; 1 if each device has all of it."""
    import torch_xla

    divided = re.match(r"\{devices=\[(\d+)", torch_xla._XLAC._get_xla_sharding_spec(tensor))
    return int(divided.group(1)) if divided else 1


def backend_for(device: Device, num_devices: int = 1, ranks: Ranks | None = None) -> Backend:
    """The backend of this rank's device, or of all `num_devices` if one process drives them."""
    if device == Device.gpu:
        return Cuda(ranks.local_rank if ranks else 0)
    if device == Device.cpu:
        return Backend()
    if device not in XLA or (device == Device.tpu and packages.folder(TORCH_TPU)):
        return Accelerator(device)
    return Xla(device, 1, ranks) if ranks and ranks.num > 1 else Xla(device, num_devices)


class Compilations:
    """Counts the graphs that this process compiles from now on. It imports nothing of torch.compile."""

    def __init__(self) -> None:
        self._before = self._so_far()

    def __call__(self) -> Compiles:
        """Their number, and the seconds that compiling took, including those of backward passes."""
        (num, seconds) = self._so_far()
        (earlier, earlier_s) = self._before
        return max(0, num - earlier), max(0.0, seconds - earlier_s)  # the user's code may have cleared the counters

    def _so_far(self) -> Compiles:
        utils: Any = sys.modules.get("torch._dynamo.utils")
        if utils is None:
            return 0, 0.0
        return utils.counters["stats"]["unique_graphs"], utils.calculate_time_spent()["total_wall_time"]
