"""Several XLA devices with a process each, on one host or on all of a TPU pod, through Lightning's XLAStrategy.

PJRT joins the processes and XLA sums the gradients. Lightning starts such processes itself, by torch_xla's `xmp.spawn`;
here they are there already, from accelbench's forkserver or from torchrun. PJRT's CPU joins no processes
(pytorch/xla#5342). torch_xla is imported inside the functions, as in `xla`.
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

# By which Lightning's loop tells the other processes, before each item, whether a signal came.
TOLD = "c10d::broadcast_"


class StartedXLA(XLAStrategy):
    """Lightning's strategy in a process that another launcher has started.

    What Lightning's loops tell each other goes by the host: XLA would compile a computation for it.
    """

    barrier = DDPStrategy.barrier
    broadcast = DDPStrategy.broadcast

    def _configure_launcher(self) -> None:
        """None: the processes are there."""

    def setup_distributed(self) -> None:
        """Joins the processes by their hosts too; PJRT has joined the devices.

        Lightning's own would refuse hosts of one device.
        """
        rank_zero_only.rank = self.global_rank
        if not dist.is_initialized():
            dist.init_process_group("gloo")

    def reduce(self, output: Any, group: Any = None, reduce_op: Any = "mean") -> Tensor:
        """The mean or the sum of what each process has."""
        reduced: Tensor = DDPStrategy.reduce(self, torch.as_tensor(output).cpu(), group, reduce_op)
        return reduced

    def process_dataloader(self, dataloader: Any) -> Any:
        """As it is: the step puts its batches on the device by itself, so that the clock sees it."""
        return dataloader


def join(ranks: Ranks) -> None:
    """Has PJRT join this process's device with the others'. To be called before anything is on a device.

    Raises:
        UnsupportedError: the host has more chips than processes, for which libtpu would wait; or PJRT joins fewer
            devices or more, or has several for a process.
    """
    import torch_xla.runtime as xr
    from torch_xla._internal import pjrt, tpu

    if xr.device_type() == "TPU" and (there := tpu.num_available_chips()) != ranks.num_here:
        told = f"this host has {there} chips, which take part all or none, for {ranks.num_here} processes"
        raise UnsupportedError(f"engine.xla_processes=true: {told}: use devices={there} for each host")
    pjrt.initialize_multiprocess(ranks.local_rank, ranks.num_here)
    joined, own = xr.world_size(), xr.addressable_device_count()
    if (joined, own) != (ranks.num, 1):
        told = f"PJRT joined {joined} devices, and this process has {own}"
        raise UnsupportedError(f"engine.xla_processes=true: {told}, where devices={ranks.num} have a process each")


def place() -> str:
    """PJRT's number of this process's device."""
    import torch_xla.runtime as xr

    return f"XLA device {xr.global_ordinal()}"


def strategy() -> XLAStrategy:
    """Lightning's, for its Trainer."""
    return StartedXLA()


def reduce_gradients(optimizer: Optimizer) -> None:
    """Averages the gradients over all devices, as torch_xla's own `optimizer_step` does."""
    import torch_xla.core.xla_model as xm

    xm.reduce_gradients(optimizer)
