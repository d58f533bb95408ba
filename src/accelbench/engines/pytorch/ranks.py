"""Runs a cell on several devices. Each device has its own process (rank). The ranks communicate by torch.distributed.

The clock of a measurement runs only in the first rank. This rank announces a number of steps, which the other ranks
then run. If the protocol has epochs, every rank runs the epochs by itself. On CPUs and GPUs, DistributedDataParallel
averages the gradients.
"""

import atexit
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from accelbench.errors import UnsupportedError
from accelbench.measuring.clock import RankGroup, Step
from accelbench.schema.measurement import Observed

Value = TypeVar("Value")
# The seeds of two ranks differ by a multiple of this number. It is larger than any usual seed.
RANK_SEEDS = 1_000_003


@dataclass(frozen=True)
class RankReport:
    """The observations of one rank, after everything was measured."""

    observed: Observed
    resources: dict[str, Any]  # see `CellRun.resources`
    # The norms of all weights after training; None in inference, and if there is one rank.
    weights: str | None


def joined(reports: list[RankReport]) -> tuple[Observed, dict[str, Any]]:
    """Combines the reports of all ranks.

    The combined name lists all names of devices. The number of devices and the peak host memory are the sums over the
    ranks. The loss is the mean. The peak device memory is the maximum. All other values are those of the first rank.
    """
    losses = [rank.observed.loss for rank in reports if rank.observed.loss is not None]
    observed = replace(
        reports[0].observed,
        device_name=" + ".join(dict.fromkeys(rank.observed.device_name for rank in reports)),
        num_devices=sum(rank.observed.num_devices for rank in reports),
        loss=fmean(losses) if losses and all(map(math.isfinite, losses)) else None,
    )
    on_device = max(rank.resources["peak_device_bytes"] or 0 for rank in reports)
    on_host = sum(rank.resources["peak_host_bytes"] or 0 for rank in reports)
    resources = {
        **reports[0].resources,
        "peak_device_bytes": on_device or None,
        "peak_host_bytes": on_host or None,
    }
    return observed, resources


def differences(reports: list[RankReport]) -> Iterator[str]:
    """Yields sentences about differences between ranks. Each difference makes the numbers of the cell invalid."""
    if len({rank.weights for rank in reports}) > 1:
        yield "the devices' weights differ after training"
    ran = [f"{rank.observed.device} in {rank.observed.precision}" for rank in reports]
    if len(set(ran)) > 1:
        yield f"the devices did not compute alike: {', '.join(ran)}"


class Ranks(RankGroup):
    """The group of the `num` processes (ranks) that run this cell, on all machines. This process is one of them.

    `part` is (index, number): every batch has `number` equal parts, and this process computes part `index`. Raises
    UnsupportedError if more or fewer than `num` processes were started.
    """

    def __init__(self, num: int) -> None:
        # torchrun or accelbench's host has set these variables.
        variables = os.environ if num > 1 else {}
        started, self.num_here = (int(variables.get(name, 1)) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
        self.rank, self.local_rank = (int(variables.get(name, 0)) for name in ("RANK", "LOCAL_RANK"))
        if started != num or num % self.num_here:
            needs = f"devices={num}: needs {num} processes, the same number on each host"
            here = f"{started} were started, {self.num_here} of them on this host"
            raise UnsupportedError(
                f"{needs}, but {here}: on one host, use `torchrun --nproc-per-node {num}`; on several, use --nnodes "
                f"HOSTS and --nproc-per-node {num}/HOSTS"
            )
        self.num = num
        self.leads = self.rank == 0  # whether the clock runs in this process
        self.part = self.rank, num
        # A second group for messages between ranks, because such messages must not use the GPU.
        self.host_group: dist.ProcessGroup | None = None

    def join(self, backend: str) -> None:
        """Connects the ranks through `backend`, a backend of torch.distributed."""
        if self.num > 1:
            if not dist.is_initialized():
                dist.init_process_group(backend)
                atexit.register(dist.destroy_process_group)
            self.host_group = dist.new_group(backend="gloo")

    def seed(self, seed: int) -> int:
        """Seeds this rank differently from the others, so that their dropout differs. Returns this rank's seed."""
        seed += RANK_SEEDS * self.rank
        if self.num > 1:
            torch.manual_seed(seed)
        return seed

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
        """Runs as many steps as the first rank announces, and repeats this until the first rank announces 0 steps."""
        while num_steps := self.begin(0):
            for _ in range(num_steps):
                step.compute(step.copy_in(step.fetch()))
            wait()
            self.end()

    def total(self, tensor: Tensor) -> float:
        """The sum of a number over all ranks."""
        number = tensor.cpu()
        if self.num > 1:
            number = number.clone()
            dist.all_reduce(number, group=self.host_group)
        return number.item()

    def gather(self, value: Value) -> list[Value]:
        """The values of all ranks, in order."""
        if self.num == 1:
            return [value]
        values: list[Value | None] = [None] * self.num
        dist.all_gather_object(values, value, group=self.host_group)
        return values  # type: ignore[return-value]
