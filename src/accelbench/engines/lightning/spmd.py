"""Several XLA devices from one process, by SPMD: batches are divided among them, weights are on each.

XLA sums the gradients over the devices where it partitions the step (docs of torch_xla: "PyTorch/XLA SPMD user
guide"). `xla_ranks` has the other way, a process for each. torch_xla is imported inside the functions, as in `xla`.
"""

import re

import torch
from torch import Tensor

from accelbench.errors import UnsupportedError

AXIS = "data"


def start(num_devices: int) -> None:
    """Has all devices act as one. To be called before anything is on a device.

    Raises:
        UnsupportedError: there are more or fewer than `num_devices`: all take part, or one.
    """
    import torch_xla.runtime as xr

    there = xr.global_runtime_device_count()
    if there != num_devices:
        raise UnsupportedError(f"devices={num_devices}: SPMD divides a batch among all {there}: use devices={there}")
    xr.use_spmd()


def put(batch: tuple[Tensor, ...], device: torch.device) -> tuple[Tensor, ...]:
    """The batch, each device with its part of the samples; a batch that is on them already stays as it is."""
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.spmd as xs

    if batch[0].device.type == "xla":
        return batch
    mesh = xs.get_1d_mesh(AXIS)

    def divided(tensor: Tensor) -> Tensor:
        spec = xs.ShardingSpec(mesh, (AXIS, *[None] * (tensor.dim() - 1)))
        sent: Tensor = xm.send_cpu_data_to_device([tensor], device, spec)[0]
        return sent

    return tuple(divided(tensor) for tensor in batch)


def gather(output: Tensor) -> Tensor:
    """`output`, whole on each device once the step has run.

    Divided, it would be put together where it is read, by a computation that torch_xla compiles anew each time.
    """
    import torch_xla.distributed.spmd as xs

    xs.mark_sharding(output, xs.get_1d_mesh(AXIS), (None,) * output.dim())
    return output


def num_parts(tensor: Tensor) -> int:
    """Among how many devices the first dimension of `tensor` is divided, as XLA has it: 1 where each holds all."""
    import torch_xla

    found = re.match(r"\{devices=\[(\d+)", torch_xla._XLAC._get_xla_sharding_spec(tensor))
    return int(found.group(1)) if found else 1
