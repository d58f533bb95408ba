"""Several XLA devices with one process each, on one host or on a whole TPU pod, through Lightning's XLAStrategy.

PJRT joins the processes and XLA sums the gradients. Lightning would start the processes with torch_xla's `xmp.spawn`;
here accelbench's forkserver or torchrun has started them. PJRT's CPU client can't join processes (pytorch/xla#5342).
torch_xla is imported inside the functions, as in `xla`.
"""

from typing import Any

import torch
import torch.distributed as dist
from pytorch_lightning.strategies import DDPStrategy, XLAStrategy
from pytorch_lightning.utilities.rank_zero import rank_zero_only
from torch import Tensor
from torch.optim import Optimizer

from accelbench.engines.lightning.ranks import Ranks
from accelbench.errors import UnsupportedError

# The operator with which Lightning's loop, before each item, tells the other processes whether a signal came.
LOOP_BROADCAST = "c10d::broadcast_"


class StartedXLA(XLAStrategy):
    """Lightning's strategy in a process that another launcher has started.

    Lightning's loops communicate through the host: XLA would compile a computation for each message.
    """

    barrier = DDPStrategy.barrier
    broadcast = DDPStrategy.broadcast

    def _configure_launcher(self) -> None:
        """Configures none: the processes exist already."""

    def setup_distributed(self) -> None:
        """Joins the processes on their hosts; PJRT has joined the devices.

        Lightning's method refuses hosts with a single device.
        """
        rank_zero_only.rank = self.global_rank
        if not dist.is_initialized():
            dist.init_process_group("gloo")

    def reduce(self, output: Any, group: Any = None, reduce_op: Any = "mean") -> Tensor:
        """The mean or the sum over all processes."""
        reduced: Tensor = DDPStrategy.reduce(self, torch.as_tensor(output).cpu(), group, reduce_op)
        return reduced

    def process_dataloader(self, dataloader: Any) -> Any:
        """Returns it unchanged: the step copies its batches to the device, so that the clock times it."""
        return dataloader


def join(ranks: Ranks) -> None:
    """Joins the devices of all processes with PJRT. To be called before anything is on a device.

    Raises:
        UnsupportedError: the host has more chips than processes, and libtpu would wait for the missing ones; or PJRT
            joined another number of devices, or more than one per process.
    """
    import torch_xla.runtime as xr
    from torch_xla._internal import pjrt, tpu

    if xr.device_type() == "TPU" and (chips := tpu.num_available_chips()) != ranks.num_here:
        reason = f"this host has {chips} chips, which take part all or none, for {ranks.num_here} processes"
        raise UnsupportedError(f"engine.xla_processes=true: {reason}: use devices={chips} for each host")
    pjrt.initialize_multiprocess(ranks.local_rank, ranks.num_here)
    joined, own = xr.world_size(), xr.addressable_device_count()
    if (joined, own) != (ranks.num, 1):
        reason = f"PJRT joined {joined} devices, and this process has {own}"
        raise UnsupportedError(f"engine.xla_processes=true: {reason}, where devices={ranks.num} have a process each")


def place() -> str:
    """PJRT's number for this process's device."""
    import torch_xla.runtime as xr

    return f"XLA device {xr.global_ordinal()}"


def strategy() -> XLAStrategy:
    """The strategy for Lightning's Trainer."""
    return StartedXLA()


def reduce_gradients(optimizer: Optimizer) -> None:
    """Averages the gradients over all devices, as torch_xla's `optimizer_step` does."""
    import torch_xla.core.xla_model as xm

    xm.reduce_gradients(optimizer)
