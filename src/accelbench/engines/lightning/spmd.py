"""Several XLA devices driven by one process (SPMD): batches are divided among them, each has all weights.

XLA partitions the step and sums the gradients over the devices (torch_xla's "PyTorch/XLA SPMD user guide"). `xla_ranks`
has one process per device instead. torch_xla is imported inside the functions, as in `xla`.
"""

import re
from typing import Any

import torch
from torch import Tensor

from accelbench.engines.lightning.structure import tensors_in
from accelbench.errors import UnsupportedError

AXIS = "data"


def start(num_devices: int) -> None:
    """Makes all devices act as one. To be called before anything is on a device.

    Raises:
        UnsupportedError: the machine has more or fewer devices; SPMD uses all of them.
    """
    import torch_xla.runtime as xr

    found = xr.global_runtime_device_count()
    if found != num_devices:
        raise UnsupportedError(f"devices={num_devices}: SPMD divides a batch among all {found}: use devices={found}")
    xr.use_spmd()


def put(batch: tuple[Tensor, ...], device: torch.device) -> tuple[Tensor, ...]:
    """The batch, each device with its part of the samples; unchanged if it is on the devices already."""
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


def gather(output: Any) -> Any:
    """`output`, its tensors complete on each device once the step has run.

    A divided output would be joined when it is read, by a computation that torch_xla compiles again each time.
    """
    import torch_xla.distributed.spmd as xs

    for tensor in tensors_in(output):
        xs.mark_sharding(tensor, xs.get_1d_mesh(AXIS), (None,) * tensor.dim())
    return output


def num_parts(tensor: Tensor) -> int:
    """The number of devices that XLA divides the first dimension of `tensor` among; 1 if each device has all of it."""
    import torch_xla

    found = re.match(r"\{devices=\[(\d+)", torch_xla._XLAC._get_xla_sharding_spec(tensor))
    return int(found.group(1)) if found else 1
