"""Accelbench's samples/s, through Lightning's Trainer, compared with a plain loop over the same tensors.

Each round of 0.1 s is a block of accelbench's clock, inside the Trainer, and as many steps of the plain loop with the
same threads; which of the two is first alternates. The ratio within a round is compared. There are several runs with
new networks, since a network's place in memory changes its speed. The first round of a run warms up the plain loop; no
other round is dropped or repeated.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from accelbench.data.arrays import Arrays, load_split
from accelbench.engines.lightning import engine, zoo
from accelbench.schema.cell import Cell, Window
from accelbench.schema.vocab import Mode
from accelbench.schema.workload import ModelSpec
from bench.rounds import Reference, cell, compare, mnist, print_heading

NUM_RUNS = 6
# About twenty rounds per run, whatever their noise.
WINDOW = Window(warmup_steps=3, warmup_s=0.3, measure_s=2.4, width=1e9, block_s=0.1, latency_s=0.0, latency_steps=1)


CASES: list[tuple[str, str, int, dict[str, Any]]] = [
    ("784-128-10 b32", "mlp", 32, {"widths": [128], "dropout": 0.0}),
    ("mlp b32", "mlp", 32, {}),
    ("mlp b128", "mlp", 128, {}),
    ("mlp b1024", "mlp", 1024, {}),
    ("cnn b64", "cnn", 64, {}),
]


def main() -> None:
    """Prints the median ratio and its 95 % interval for each case, training and inference."""
    print_heading(16)
    for name, model, batch_size, args in CASES:
        for mode in Mode:
            compared = cell(ModelSpec(name=model, args=args), mode, batch_size, window=WINDOW)
            arrays = load_split(mnist(), "train" if mode == Mode.train else "test")
            make = plain_training if mode == Mode.train else plain_inference
            compare(name, 16, compared, NUM_RUNS, engine.run, lambda made=(make, compared, arrays): reference(*made))


def reference(make: Any, compared: Cell, arrays: Arrays) -> Reference:
    """A plain loop over the steps that `make` returns."""
    return partial(timed, make(compared, arrays))


def plain_training(given: Cell, arrays: Arrays) -> Callable[[], object]:
    """A step of a plain training loop."""
    torch.manual_seed(given.seed)
    network = zoo.build(given.model, (28, 28), 10).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-7)
    images, labels = torch.from_numpy(arrays.images), torch.from_numpy(arrays.labels).long()

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            order = torch.randperm(len(labels))
            for start in range(0, len(labels) - given.batch_size + 1, given.batch_size):
                chosen = order[start : start + given.batch_size]
                yield images.index_select(0, chosen), labels.index_select(0, chosen)

    source = batches()

    def step() -> None:
        batch, target = next(source)
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(batch.to(torch.float32).div_(255)), target)
        loss.backward()
        optimizer.step()

    return step


def plain_inference(given: Cell, arrays: Arrays) -> Callable[[], object]:
    """A step of a plain inference loop; it runs in inference mode, as accelbench's blocks do."""
    torch.manual_seed(given.seed)
    network = zoo.build(given.model, (28, 28), 10).eval()
    images = torch.from_numpy(arrays.images)

    def batches() -> Iterator[Tensor]:
        while True:
            for start in range(0, len(images) - given.batch_size + 1, given.batch_size):
                yield images[start : start + given.batch_size]

    source = batches()
    return lambda: network(next(source).to(torch.float32).div_(255))


def timed(step: Callable[[], object], num_steps: int) -> float:
    """Seconds per step."""
    start = time.perf_counter()
    for _ in range(num_steps):
        step()
    return (time.perf_counter() - start) / num_steps
