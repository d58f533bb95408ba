"""PyTorch's backends. Each kind of device has a backend for copies, waiting, time stamps, settings and memory."""
# Only a backend for XLA imports torch_xla, because the import replaces parts of torch.nn.

import re
import sys
import time
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
from accelbench.engines.cell_run import BaseBackend
from accelbench.engines.pytorch.precision import FULL, flush_denormals, reset_settings, use_threads
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.engines.pytorch.structure import mapped, tensors_in
from accelbench.errors import UnsupportedError
from accelbench.measuring.clock import Compiles
from accelbench.schema.cell import Cell, Device, Precision

MESH_AXIS = "data"
# `.item()` runs this operator, which torch_xla counts as a fallback.
NO_FALLBACKS = ("aten::_local_scalar_dense",)


class Backend(BaseBackend):
    """The backend for the CPU. It is the base class of the backends for other devices."""

    torch_type = "cpu"
    joined_by = "gloo"  # the backend of torch.distributed that joins several processes
    fused = False  # whether a step is recorded, compiled for each new shape of a batch, and run as a whole
    num_devices = 1  # the number of devices that computed parts of each batch
    flushes_denormals = False
    allow_tf32 = False
    num_threads: int | None = None  # of the cell; None if torch chooses it

    def __init__(self) -> None:
        self.count_compiles: Callable[[], Compiles] = compilations()

    def begin(self, cell: Cell, num_here: int = 1) -> None:
        """Applies the settings of a cell to this process. `num_here` processes run the cell on this machine."""
        self.flushes_denormals = cell.options.flush_denormals
        if self.flushes_denormals:  # first: threads that PyTorch starts later inherit it
            flush_denormals()
        self.use_threads(cell, num_here)
        self.num_threads = torch.get_num_threads()
        self.prepare(allow_tf32=cell.precision == Precision.tf32)

    def use_threads(self, cell: Cell, num_here: int) -> None:
        """Sets the number of CPU threads to `cell.threads`. If this is None, divides the cores among the processes.

        If the cell has several instances of the network, divides the threads among the instances.
        """
        num = cpu.usable_cores() // num_here if cell.threads is None else cell.threads
        use_threads(max(1, num // cell.num_instances))

    def prepare(self, allow_tf32: bool) -> None:
        """Sets the global settings of PyTorch and of the device's library for one cell."""
        self.allow_tf32 = allow_tf32
        self.reset()

    def reset(self) -> None:
        """Sets the global settings that affect speed or numbers."""
        reset_settings(allow_tf32=self.allow_tf32)

    def hold(self, dtype: torch.dtype) -> None:
        """Sets the global settings again before the first step, because the user's code may have changed them.

        Makes `dtype` the default for new tensors.
        """
        self.reset()
        torch.set_default_dtype(dtype)
        if self.num_threads is not None:
            use_threads(self.num_threads)

    def multiplies_coarsely(self, operation: str = "matmul") -> bool:
        """Is true if the present settings make the device multiply fp32 numbers in a coarser format, such as TF32."""
        library = "cuda" if self.torch_type == "cuda" else "mkldnn"
        return torch._C._get_fp32_precision_getter(library, operation) not in (FULL, "none")

    def changed(self) -> Iterator[str]:
        num = torch.get_num_threads()
        if self.num_threads not in (None, num):
            yield f"the user's code changed the number of threads from {self.num_threads} to {num}"
        if not self.allow_tf32 and any(map(self.multiplies_coarsely, ("matmul", "conv"))):
            yield "the user's code lets the device multiply fp32 numbers in a coarser format"

    def device(self) -> torch.device:
        """The device of the tensors."""
        return torch.device(self.torch_type)

    def seed(self, number: int) -> None:
        """Seeds the device's random generator. Does nothing on devices that `torch.manual_seed` seeds."""

    def put(self, batch: Any) -> Any:
        """Copies a batch to the device. May return before the copy is finished."""
        device = self.device()
        return mapped(batch, lambda tensor: tensor.to(device, non_blocking=True))

    def gather(self, output: Any) -> Any:
        """Returns the output. If several XLA devices have parts of it, the recorded step joins them."""
        return output

    def place(self, network: nn.Module) -> nn.Module:
        """Copies the network to the device and returns it."""
        return network.to(self.device())

    def in_parallel(self, network: nn.Module) -> nn.Module:
        """Wraps the network for several processes, so that they average their gradients."""
        return DistributedDataParallel(network)

    def reduce_gradients(self, optimizer: Optimizer) -> None:
        """Averages the gradients over the ranks. Does nothing if DistributedDataParallel averages them."""

    def stamp(self) -> Any:
        """Takes a time stamp for `between`."""
        return time.perf_counter()

    def between(self, start: Any, end: Any) -> float:
        """Returns the seconds between two stamps. The device must have reached both stamps before this call."""
        seconds: float = end - start
        return seconds

    def end_step(self) -> None:
        """Launches the step that the device has recorded. Does nothing if the device records no steps (see `fused`)."""

    def compiles(self) -> Compiles:
        return self.count_compiles()

    def device_name(self) -> str | None:
        return cpu.name()

    def ran_on(self, torch_type: str) -> str:
        """Converts torch's name of a device type to a value of `cell.Device`."""
        return Device.gpu if torch_type == "cuda" else torch_type


class Accelerator(Backend):
    """The backend for a TPU with torch_tpu. It uses `torch.accelerator`.

    Raises UnsupportedError if torch finds no such device.
    """

    index = 0  # the number of the device among the visible devices
    on_host, queues = False, True

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.torch_type = device.value
        # The device's driver is loaded here, in the process of the cell. A host must not load it before it forks.
        for entry in entry_points(group="torch.backends", name=f"torch_{device}"):
            entry.load()()
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        if accelerator is None or accelerator.type != device:
            raise UnsupportedError(f"device={device}: torch {torch.__version__} finds no such device here")

    def prepare(self, allow_tf32: bool) -> None:
        """Also selects the device, and resets its peak memory."""
        torch.accelerator.set_device_index(torch.device(self.torch_type, self.index))
        super().prepare(allow_tf32)
        with suppress(RuntimeError):  # not every device reports its peak memory
            torch.accelerator.reset_peak_memory_stats(self.torch_type)

    def put(self, batch: Any) -> Any:
        """Copies a batch to the device and waits for the copy.

        The batch is not in pinned memory. So some devices can't copy it while the host continues.
        """
        return mapped(batch, lambda tensor: tensor.to(self.device()))

    def wait(self) -> None:
        torch.accelerator.synchronize(self.torch_type)

    def stamp(self) -> Any:
        """Records an event in the stream. Does not wait."""
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
    """The backend for an NVIDIA GPU."""

    torch_type, joined_by = "cuda", "nccl"

    def __init__(self, index: int = 0) -> None:
        Backend.__init__(self)
        self.index = index

    put = Backend.put

    def in_parallel(self, network: nn.Module) -> nn.Module:
        # In a side stream, as PyTorch's documentation requires before CUDA graphs are recorded.
        with torch.cuda.stream(torch.cuda.Stream()):
            return DistributedDataParallel(network, device_ids=[self.index])


class Xla(Backend):
    """The backend for torch_xla, on a TPU or on the CPU (with `PJRT_DEVICE=CPU`).

    Without `ranks`, one process uses `num_asked` devices as if they were one device (SPMD). Batches are divided among
    the devices, and each device has all weights. XLA partitions the step and sums the gradients.

    With `ranks`, each process (rank) uses one device. The processes run on one machine or on a TPU pod. PJRT connects
    the processes. On the CPU, PJRT can't connect them (pytorch/xla#5342).
    """

    torch_type = "xla"
    fused = True
    on_host, queues = False, True

    def __init__(self, num_asked: int = 1, ranks: Ranks | None = None) -> None:
        import torch_xla.backends
        import torch_xla.core.xla_model
        import torch_xla.debug.metrics
        import torch_xla.distributed.spmd
        import torch_xla.runtime

        self.torch_xla, self.model, self.runtime = torch_xla, torch_xla.core.xla_model, torch_xla.runtime
        self.metrics, self.spmd = torch_xla.debug.metrics, torch_xla.distributed.spmd
        self.num_asked, self.ranks = num_asked, ranks

    def prepare(self, allow_tf32: bool) -> None:
        if self.ranks is not None:
            self._join(self.ranks)
        elif self.num_asked > 1:  # must be called before any tensor is on a device
            self.runtime.use_spmd()
        super().prepare(allow_tf32)

    def reset(self) -> None:
        """Also makes XLA multiply fp32 matrices in fp32. By default, a TPU multiplies them in bf16."""
        super().reset()
        self.torch_xla.backends.set_mat_mul_precision("highest")

    def use_threads(self, cell: Cell, num_here: int) -> None:
        if cell.threads is not None:
            raise UnsupportedError(
                f"threads={cell.threads}: XLA's threads can't be limited: use threads=null"
            )
        if cell.device == Device.xla_cpu:
            use_threads(1)  # torch itself only gathers batches; more threads would take cores from XLA

    def _join(self, ranks: Ranks) -> None:
        """Connects the processes. Must run before any tensor is on a device.

        Raises UnsupportedError if PJRT has not connected `ranks.num` devices.
        """
        from torch_xla._internal import pjrt

        pjrt.initialize_multiprocess(ranks.local_rank, ranks.num_here)
        num_joined = self.runtime.world_size()
        num_here = self.runtime.addressable_device_count()
        if (num_joined, num_here) != (ranks.num, 1):
            reason = f"PJRT connected {num_joined} devices, {num_here} of them in this process"
            raise UnsupportedError(
                f"engine.xla_processes=true: {reason}: devices={ranks.num} needs {ranks.num} devices, one per process"
            )

    def multiplies_coarsely(self, operation: str = "matmul") -> bool:
        return bool(self.torch_xla.backends.get_mat_mul_precision() != "highest")

    def seed(self, number: int) -> None:
        """Seeds torch_xla's random generator. Without a seed, it starts from the same state in each process."""
        self.model.set_rng_state(number)

    def put(self, batch: Any) -> Any:
        """Copies a batch to the device, or divides it among several devices. Leaves a batch that is already there."""
        if self.num_asked == 1:
            return super().put(batch)
        if next(tensors_in(batch)).device.type != "xla":
            batch = mapped(batch, self._divided)
        if self.num_devices == 1:
            self.num_devices = num_parts(next(tensors_in(batch)))
        return batch

    def _divided(self, tensor: Tensor) -> Any:
        spec = self.spmd.ShardingSpec(
            self.spmd.get_1d_mesh(MESH_AXIS), (MESH_AXIS,) + (None,) * (tensor.dim() - 1)
        )
        return self.model.send_cpu_data_to_device([tensor], self.device(), spec)[0]

    def gather(self, output: Any) -> Any:
        """Makes each device hold the whole output, so that the step collects the devices' parts.

        Otherwise, torch_xla would collect them when code reads the output, and would compile again each time.
        """
        for tensor in tensors_in(output) if self.num_asked > 1 else ():
            self.spmd.mark_sharding(tensor, self.spmd.get_1d_mesh(MESH_AXIS), (None,) * tensor.dim())
        return output

    def place(self, network: nn.Module) -> nn.Module:
        """Copies the network to the device. torch copies a shared weight once for each layer; they share one again."""
        first = {id(weight): name for name, weight in network.named_parameters()}
        every = [
            (name, first[id(weight)]) for name, weight in network.named_parameters(remove_duplicate=False)
        ]
        network = super().place(network)
        for name, source in every:
            if name != source:
                owner, _, attribute = name.rpartition(".")
                setattr(network.get_submodule(owner), attribute, network.get_parameter(source))
        return network

    def in_parallel(self, network: nn.Module) -> nn.Module:
        return network  # `reduce_gradients` averages the gradients

    def reduce_gradients(self, optimizer: Optimizer) -> None:
        """Averages the gradients within the step, as torch_xla's `optimizer_step` does."""
        if self.ranks is not None:
            self.model.reduce_gradients(optimizer)

    def fallbacks(self) -> list[str]:
        """Returns the operators that ran on the CPU because XLA lacks them, such as `aten::nonzero`."""
        return sorted(name for name in self.metrics.executed_fallback_ops() if name not in NO_FALLBACKS)

    def wait(self) -> None:
        """Waits for all launched steps. `torch_xla.sync(wait=True)` does not wait for them on the CPU."""
        self.model.wait_device_ops()

    def end_step(self) -> None:
        """Launches the recorded operations of the step. Operations that are new are compiled first."""
        self.torch_xla.sync()

    def compiles(self) -> Compiles:
        data = self.metrics.metric_data("CompileTime")
        return (data[0], data[1] / 1e9) if data else (0, 0.0)  # nanoseconds

    def peak_memory_bytes(self) -> int | None:
        try:
            peak = self.model.get_memory_info().get("peak_bytes_used")
        except RuntimeError:  # PJRT's CPU client has no memory statistics
            return None
        return int(peak) if peak else None

    def device_name(self) -> str | None:
        """Returns PJRT's name of the hardware, such as `TPU v4`.

        Returns None on the CPU. Also returns None if this process uses several devices.
        """
        if self.runtime.device_type() != "TPU" or self.num_asked > 1:
            return None
        return str(self.torch_xla._XLAC._xla_device_kind(str(self.torch_xla.device())))

    def ran_on(self, torch_type: str) -> str:
        """Converts torch's name of a device type to a value of `cell.Device`. Asks PJRT whether `xla` is a TPU."""
        if torch_type != "xla":
            return torch_type
        return Device.tpu if self.runtime.device_type() == "TPU" else Device.xla_cpu


def num_parts(tensor: Tensor) -> int:
    """Returns the number of devices among which XLA divides the rows of a tensor, or 1 if it divides no rows."""
    import torch_xla

    divided = re.match(r"\{devices=\[(\d+)", torch_xla._XLAC._get_xla_sharding_spec(tensor))
    return int(divided.group(1)) if divided else 1


def backend_for(device: Device, num_devices: int = 1, ranks: Ranks | None = None) -> Backend:
    """Creates the backend for a device. If XLA runs without ranks, the backend uses all `num_devices` devices."""
    if device == Device.gpu:
        return Cuda(ranks.local_rank if ranks else 0)
    if device == Device.cpu:
        return Backend()
    if device == Device.tpu and packages.folder(TORCH_TPU):
        return Accelerator(device)
    return Xla(ranks=ranks) if ranks and ranks.num > 1 else Xla(num_devices)


def compilations() -> Callable[[], Compiles]:
    """Returns a function that counts the graphs that torch.compile compiles in this process from now on.

    The count includes backward passes. The function also returns how many seconds the compilation took. It does not
    import torch's compiler.
    """

    def so_far() -> Compiles:
        utils: Any = sys.modules.get("torch._dynamo.utils")
        if utils is None:
            return 0, 0.0
        return utils.counters["stats"]["unique_graphs"], utils.calculate_time_spent()["total_wall_time"]

    earlier, earlier_s = so_far()

    def since() -> Compiles:
        num, seconds = so_far()
        # At least 0: user code may clear torch's counters.
        return max(0, num - earlier), max(0.0, seconds - earlier_s)

    return since
