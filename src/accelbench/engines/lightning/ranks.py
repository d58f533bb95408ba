"""Several devices: a process for each, its rank, that Lightning joins into one group.

The first rank's clock leads and the others take the steps that it announces. On CPUs and GPUs gradients are averaged by
DistributedDataParallel around the network alone: Lightning would wrap the whole module, whose one `training_step`
drains all batches, and none of the forward passes in it would be DDP's. `xla_ranks` has XLA's way.
"""

import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from lightning_fabric.plugins.environments import TorchElasticEnvironment
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor, nn

from accelbench.errors import UnsupportedError
from accelbench.measuring.step import RankGroup, Step

Value = TypeVar("Value")
# How far the seeds of several processes lie apart: beyond those that anyone asks for.
RANK_SEEDS = 1_000_003


class NetworkDDP(DDPStrategy):
    """Lightning's strategy, with the network wrapped in place of the module around it."""

    def __init__(self) -> None:
        super().__init__(cluster_environment=TorchElasticEnvironment())

    def configure_ddp(self) -> None:
        """Wraps the network: each of its forward passes then has its gradients averaged."""
        self.model.network = self._setup_model(self.model.network)


@dataclass(frozen=True)
class Seen:
    """What a rank has to tell when all was measured.

    Attributes:
        device: accelbench's word for what computed.
        place: what tells its device from the other ranks'.
        device_name: the hardware's.
        precision: what computed.
        num_devices: how many it divided its batches among.
        peak_device_bytes, peak_host_bytes: as in `Measurement`, of this process.
        finite: whether its last result is.
        loss: of its last training step; None in inference.
        weights: the digest of its trained weights; None in inference.
    """

    device: str
    place: str
    device_name: str
    precision: str
    num_devices: int
    peak_device_bytes: int | None
    peak_host_bytes: int | None
    finite: bool
    loss: float | None
    weights: str | None


def joined(seen: list[Seen]) -> dict[str, Any]:
    """All ranks' as one, under the names that `Measurement` has for it."""
    first = seen[0]
    losses = [each.loss for each in seen if each.loss is not None and math.isfinite(each.loss)]
    on_device = [each.peak_device_bytes for each in seen if each.peak_device_bytes is not None]
    on_host = [each.peak_host_bytes for each in seen if each.peak_host_bytes is not None]
    return {
        "device": first.device,
        "device_name": " + ".join(dict.fromkeys(each.device_name for each in seen)),
        "precision": first.precision,
        "num_devices": sum({each.place: each.num_devices for each in seen}.values()),
        "loss": sum(losses) / len(losses) if len(losses) == len(seen) else None,
        "peak_device_bytes": max(on_device, default=None),
        "peak_host_bytes": sum(on_host) if on_host else None,
    }


def differences(seen: list[Seen]) -> list[str]:
    """What makes the numbers of several ranks false; nothing for one alone."""
    found = ["the devices' weights differ after training"] if len({each.weights for each in seen}) > 1 else []
    if len({(each.device, each.precision) for each in seen}) > 1:
        ran = ", ".join(f"{each.device} in {each.precision}" for each in seen)
        found.append(f"the devices did not compute alike: {ran}")
    return found


class Ranks(RankGroup):
    """This process among those of its cell; of one alone, which has nobody to wait for.

    Args:
        num: how many there are, on all hosts.

    Attributes:
        rank: this one's number among all.
        local_rank: its number on this host.
        num_here: how many there are on this host.

    Raises:
        UnsupportedError: another number was started, or other ones on some hosts than on others.
    """

    def __init__(self, num: int) -> None:
        # As torchrun names them, and accelbench's host.
        given = os.environ if num > 1 else {}
        started, self.num_here = (int(given.get(name, 1)) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
        self.rank, self.local_rank = (int(given.get(name, 0)) for name in ("RANK", "LOCAL_RANK"))
        if started != num:
            told = f"devices={num} takes {num} processes, not the {started} there are"
            raise UnsupportedError(f"{told}: use `torchrun --nproc-per-node {num}`, on several hosts with --nnodes")
        if num % self.num_here:
            raise UnsupportedError(
                f"devices={num}: {self.num_here} of the processes are on this host, and each has to have as many"
            )
        self.num = num
        self.leads = self.rank == 0
        self.part = self.rank, num
        # The first rank's words go by the host: a GPU has nothing to do with them.
        self.talk: dist.ProcessGroup | None = None

    def join(self, seed: int) -> int:
        """To be called once Lightning has made the group.

        Returns:
            This rank's own seed, which the host's random numbers now follow: each drops out others.
        """
        if self.num > 1:
            self.talk = dist.new_group(backend="gloo")
            torch.manual_seed(seed + RANK_SEEDS * self.rank)
        return seed + RANK_SEEDS * self.rank

    def begin(self, num_steps: int) -> None:
        """See `Team`."""
        if self.num > 1:
            dist.broadcast(torch.tensor([num_steps]), src=0, group=self.talk)

    def end(self) -> None:
        """See `Team`."""
        if self.num > 1:
            dist.barrier(group=self.talk)

    def dismiss(self) -> None:
        """Has the others stop to follow."""
        self.begin(0)

    def follow(self, step: Step, wait: Callable[[], None]) -> None:
        """Takes the steps that the first rank announces, until it dismisses this one."""
        announced = torch.zeros(1, dtype=torch.int64)
        while True:
            dist.broadcast(announced, src=0, group=self.talk)
            num_steps = int(announced)
            if num_steps == 0:
                return
            for _ in range(num_steps):
                step.compute(step.copy_in(step.fetch()))
            wait()
            self.end()

    def total(self, tensor: Tensor) -> float:
        """The sum of all ranks' numbers."""
        number = tensor.cpu()
        if self.num > 1:
            number = number.clone()
            dist.all_reduce(number, group=self.talk)
        return number.item()

    def gather(self, value: Value) -> list[Value]:
        """All ranks' values, in their order."""
        if self.num == 1:
            return [value]
        values: list[Value | None] = [None] * self.num
        dist.all_gather_object(values, value, group=self.talk)
        return values  # type: ignore[return-value]


def digest(network: nn.Module) -> str:
    """The sha256 of the weights, bit by bit."""
    found = hashlib.sha256()
    for parameter in network.parameters():
        found.update(parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
