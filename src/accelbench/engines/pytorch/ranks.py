"""Several devices with one process (rank) each, which are joined into a group.

The clock runs in the first rank; the other ranks run as many steps as it announces. On CPUs and GPUs,
DistributedDataParallel around the network averages the gradients.
"""

import atexit
import hashlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from accelbench.engines.cell_run import Resources
from accelbench.errors import UnsupportedError
from accelbench.measuring.runner import RankGroup, Step
from accelbench.schema.measurement import Observed

Value = TypeVar("Value")
# The seeds of two ranks differ by a multiple of this number, which is larger than any usual seed.
RANK_SEEDS = 1_000_003


@dataclass(frozen=True)
class Seen:
    """What one rank observed, after everything was measured."""

    observed: Observed
    resources: Resources
    weights: str | None  # digest of the trained ones; None in inference


def joined(seen: list[Seen]) -> tuple[Observed, Resources]:
    """What all ranks observed, and the first one's resources with the largest peak on a device, and the host's sum."""
    losses = [rank.observed.loss for rank in seen if rank.observed.loss is not None]
    observed = replace(
        seen[0].observed,
        device_name=" + ".join(dict.fromkeys(rank.observed.device_name for rank in seen)),
        num_devices=sum(rank.observed.num_devices for rank in seen),
        loss=fmean(losses) if losses and all(map(math.isfinite, losses)) else None,
    )
    on_device = max(rank.resources.peak_device_bytes or 0 for rank in seen)
    on_host = sum(rank.resources.peak_host_bytes or 0 for rank in seen)
    resources = replace(seen[0].resources, peak_device_bytes=on_device or None, peak_host_bytes=on_host or None)
    return observed, resources


def differences(seen: list[Seen]) -> Iterator[str]:
    """What makes the numbers of several ranks false, in words."""
    if len({rank.weights for rank in seen}) > 1:
        yield "the devices' weights differ after training"
    ran = [f"{rank.observed.device} in {rank.observed.precision}" for rank in seen]
    if len(set(ran)) > 1:
        yield f"the devices did not compute alike: {', '.join(ran)}"


class Ranks(RankGroup):
    """The `num` processes of this cell on all hosts, as one of them sees them. With one, nothing is waited for.

    `part` is the index of this process's part of every batch, and the number of parts.
    """

    def __init__(self, num: int) -> None:
        # Set by torchrun, or by accelbench's host.
        variables = os.environ if num > 1 else {}
        started, self.num_here = (int(variables.get(name, 1)) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
        self.rank, self.local_rank = (int(variables.get(name, 0)) for name in ("RANK", "LOCAL_RANK"))
        if started != num or num % self.num_here:
            reason = f"devices={num} takes {num} processes, as many on each host, not {self.num_here} of {started} here"
            raise UnsupportedError(f"{reason}: use `torchrun --nproc-per-node {num}`, on several hosts with --nnodes")
        self.num = num
        self.leads = self.rank == 0  # the clock runs in this process
        self.part = self.rank, num
        # A group on the host: what ranks tell each other must not use the GPU.
        self.host_group: dist.ProcessGroup | None = None

    def join(self, backend: str) -> None:
        """Joins the ranks, by a `backend` of torch.distributed."""
        if self.num > 1:
            if not dist.is_initialized():
                dist.init_process_group(backend)
                atexit.register(dist.destroy_process_group)
            self.host_group = dist.new_group(backend="gloo")

    def seed(self, seed: int) -> int:
        """Seeds this rank, so that its dropout is its own; returns its seed."""
        if self.num > 1:
            torch.manual_seed(seed + RANK_SEEDS * self.rank)
        return seed + RANK_SEEDS * self.rank

    def begin(self, num_steps: int) -> int:
        if self.num == 1:
            return num_steps
        announced = torch.tensor([num_steps])
        dist.broadcast(announced, src=0, group=self.host_group)
        return int(announced)

    def end(self) -> None:
        if self.num > 1:
            dist.barrier(group=self.host_group)

    def any(self, holds: bool) -> bool:
        return self.total(torch.tensor(float(holds))) > 0

    def follow(self, step: Step, wait: Callable[[], None]) -> None:
        """Runs the steps that the first rank announces, until it announces none."""
        while num_steps := self.begin(0):
            for _ in range(num_steps):
                step.compute(step.copy_in(step.fetch()))
            wait()
            self.end()

    def total(self, tensor: Tensor) -> float:
        number = tensor.cpu()
        if self.num > 1:
            number = number.clone()
            dist.all_reduce(number, group=self.host_group)
        return number.item()

    def gather(self, value: Value) -> list[Value]:
        if self.num == 1:
            return [value]
        values: list[Value | None] = [None] * self.num
        dist.all_gather_object(values, value, group=self.host_group)
        return values  # type: ignore[return-value]


def digest(network: nn.Module) -> str:
    """The sha256 of the bytes of all weights."""
    total = hashlib.sha256()
    for weight in network.parameters():
        total.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
