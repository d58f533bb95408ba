"""Accelbench's samples/s, through Lightning's Trainer, compared with a plain loop over the same tensors.

Each round of 0.1 s is a block of accelbench's clock, inside the Trainer, and as many steps of the plain loop with the
same threads; which of the two is first alternates. The ratio within a round is compared. There are several runs with
new networks, since a network's place in memory changes its speed. The first round of a run warms up the plain loop; no
other round is dropped or repeated.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial, partialmethod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional

from accelbench.data.arrays import Arrays, load_split
from accelbench.engines.lightning import engine, zoo
from accelbench.measuring.runner import Runner
from accelbench.project import workplace
from accelbench.schema.cell import Cell, Window
from accelbench.schema.vocab import Device, Engine, Mode, Precision, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from bench.rounds import print_heading, print_row, run_both

NUM_RUNS = 6
# About twenty rounds per run, whatever their noise.
WINDOW = Window(warmup_steps=3, warmup_s=0.3, measure_s=2.4, width=1e9, block_s=0.1, latency_s=0.0, latency_steps=1)


@dataclass(frozen=True)
class Case:
    """One network at one batch size."""

    name: str
    model: str
    batch_size: int
    args: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case("784-128-10 b32", "mlp", 32, {"widths": [128], "dropout": 0.0}),
    Case("mlp b32", "mlp", 32),
    Case("mlp b128", "mlp", 128),
    Case("mlp b1024", "mlp", 1024),
    Case("cnn b64", "cnn", 64),
]


def main() -> None:
    """Prints the median ratio and its 95 % interval for each case, training and inference."""
    folder = workplace().root / "data" / "mnist"
    print_heading(16)
    for case in CASES:
        for mode in Mode:
            ratios, rates = compare(case, mode, folder)
            print_row(16, case.name, mode, ratios, rates)


def compare(case: Case, mode: Mode, folder: Path) -> tuple[list[float], list[float]]:
    """Accelbench's samples/s divided by the plain loop's, and the plain loop's samples/s, one value per round."""
    cell = Cell(
        suite="bench",
        engine=Engine.lightning,
        device=Device.cpu,
        model=ModelSpec(name=case.model, args=case.args),
        data=DataSpec(name="mnist"),
        mode=mode,
        precision=Precision.fp32,
        batch_size=case.batch_size,
        protocol=Protocol.window,
        epochs=1,
        window=WINDOW,
        breakdown_s=0.0,
    )
    arrays = load_split(folder, "train" if mode == Mode.train else "test")
    rounds: list[tuple[float, float]] = []
    for _ in range(NUM_RUNS):
        step = plain_training(cell, arrays) if mode == Mode.train else plain_inference(cell, arrays)
        mine: list[tuple[float, float]] = []
        with patch.object(Runner, "block", partialmethod(run_both, partial(timed, step), mine)):
            engine.run(cell, folder)
        rounds += mine[1:]
    rates = [cell.batch_size / plain_s for _, plain_s in rounds]
    return [plain_s / ours_s for ours_s, plain_s in rounds], rates


def plain_training(cell: Cell, arrays: Arrays) -> Callable[[], object]:
    """A step of a plain training loop."""
    torch.manual_seed(cell.seed)
    network = zoo.build(cell.model, (28, 28), 10).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-7)
    images, labels = torch.from_numpy(arrays.images), torch.from_numpy(arrays.labels).long()

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            order = torch.randperm(len(labels))
            for start in range(0, len(labels) - cell.batch_size + 1, cell.batch_size):
                chosen = order[start : start + cell.batch_size]
                yield images.index_select(0, chosen), labels.index_select(0, chosen)

    source = batches()

    def step() -> None:
        batch, target = next(source)
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(batch.to(torch.float32).div_(255)), target)
        loss.backward()
        optimizer.step()

    return step


def plain_inference(cell: Cell, arrays: Arrays) -> Callable[[], object]:
    """A step of a plain inference loop; it runs in inference mode, as accelbench's blocks do."""
    torch.manual_seed(cell.seed)
    network = zoo.build(cell.model, (28, 28), 10).eval()
    images = torch.from_numpy(arrays.images)

    def batches() -> Iterator[Tensor]:
        while True:
            for start in range(0, len(images) - cell.batch_size + 1, cell.batch_size):
                yield images[start : start + cell.batch_size]

    source = batches()
    return lambda: network(next(source).to(torch.float32).div_(255))


def timed(step: Callable[[], object], num_steps: int) -> float:
    """Seconds per step."""
    start = time.perf_counter()
    for _ in range(num_steps):
        step()
    return (time.perf_counter() - start) / num_steps
