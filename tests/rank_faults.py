"""The PyTorch engine, spoilt as the cell's suite says; or with its weights written down."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import torch

import seedless  # noqa: F401
from accelbench.engines.pytorch import engine
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell, Precision
from accelbench.schema.measurement import Measurement


def host(cell: Cell) -> HostSpec:
    """A host whose engine is this module."""
    return HostSpec("rank_faults", ("accelbench.isolation.supervisor", "rank_faults"))


def run(cell: Cell, data_folder: Path) -> Measurement | None:
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    if cell.suite == "not wrapped":
        Backend.in_parallel = lambda self, network: network
    if cell.suite == "killed" and rank:
        Ranks.follow = lambda self, step, wait: os.kill(os.getpid(), signal.SIGKILL)
    if cell.suite == "other precision" and rank:
        cell = replace(cell, precision=Precision.bf16_mixed)
    report = engine.Run._report

    def spoilt(self):
        if cell.suite == "tell":
            torch.save(self.network.state_dict(), data_folder / f"rank{rank}of{cell.devices}.pt")
        if cell.suite == "frozen weights":
            weight = torch.tensor([rank + 1, 2], dtype=torch.uint8)
            self.network.register_parameter("frozen", torch.nn.Parameter(weight, requires_grad=False))
        return report(self)

    engine.Run._report = spoilt
    return engine.run(cell, data_folder)
