"""Compares accelbench's samples/s with a plain loop over the same tensors.

Each round of 0.1 s is a block of accelbench's clock and as many steps of the plain loop with the same threads. They
alternate in which is first. The result is the ratio within a round. There are several runs with new networks, because a
network's place in memory changes its speed. The first round of a run warms up the plain loop. No other round is dropped
or repeated.

`xla` compares with a plain torch_xla loop on XLA's CPU. It runs in a separate process, because importing torch_xla
replaces parts of torch.nn.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from accelbench.data.arrays import Arrays
from accelbench.engines.pytorch import engine, zoo
from accelbench.schema.cell import Cell, Device, Mode, ModelSpec, Window
from bench.blocks import in_order, seconds_per_step
from bench.rounds import Reference, compare_all

# Each run has about twenty rounds, also if they have little noise.
OPEN = {"width": 1e9, "block_s": 0.1, "latency_s": 0.0, "latency_steps": 1}
WINDOW = Window(warmup_steps=3, warmup_s=0.3, measure_s=2.4, **OPEN)
XLA_WINDOW = Window(warmup_steps=5, warmup_s=0.5, measure_s=2.9, **OPEN)
SMALL = ModelSpec(name="mlp", args={"widths": [128], "dropout": 0.0})
MLP, CNN = ModelSpec(name="mlp"), ModelSpec(name="cnn")
# The stand-in for MNIST has 500 test images.
CASES = {"784-128-10 b32": (SMALL, 32), "mlp b32": (MLP, 32), "mlp b128": (MLP, 128), "mlp b500": (MLP, 500)}
CASES |= {"cnn b64": (CNN, 64)}
XLA_CASES = ("mlp b32", "mlp b128", "cnn b64")


def main() -> None:
    """Prints the median ratio and its 95 % interval for each case, training and inference."""
    compare_all(CASES, 6, {"window": WINDOW}, engine.run, plain)


def xla() -> None:
    """Runs this module with PJRT on the CPU."""
    subprocess.run([sys.executable, "-m", "bench.loop"], env={**os.environ, "PJRT_DEVICE": "CPU"}, check=True)


def plain(given: Cell, arrays: Arrays) -> Reference:
    """The seconds per step of a plain loop. Inference runs in inference mode, as in accelbench's blocks."""
    torch.manual_seed(given.seed)
    network = zoo.build(given.model, (28, 28), 10).train(given.mode == Mode.train)
    if given.mode == Mode.infer:
        batches = in_order(torch.from_numpy(arrays.images), given.batch_size)
        return partial(seconds_per_step, lambda: network(next(batches).to(torch.float32).div_(255)))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-7)
    source = shuffled(arrays, given.batch_size)

    def step() -> None:
        batch, target = next(source)
        optimizer.zero_grad()
        functional.cross_entropy(network(batch.to(torch.float32).div_(255)), target).backward()
        optimizer.step()

    return partial(seconds_per_step, step)


def shuffled(arrays: Arrays, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Whole batches of images and labels in a random order, epoch after epoch."""
    images = torch.from_numpy(arrays.images)
    labels = torch.from_numpy(arrays.labels).long()
    while True:
        for chosen in torch.randperm(len(labels)).split(size)[: len(labels) // size]:
            yield images.index_select(0, chosen), labels.index_select(0, chosen)


def plain_xla(given: Cell, arrays: Arrays) -> Reference:
    """The seconds per step of a plain torch_xla loop."""
    import torch_xla
    import torch_xla.core.xla_model as xm

    trains = given.mode == Mode.train
    device = torch_xla.device()
    torch.manual_seed(given.seed)
    network = zoo.build(given.model, (28, 28), 10).train(trains).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-7)
    # NumPy gathers batches. With torch, its threads would take cores from XLA, which costs 2 ms per step.
    images = np.asarray(arrays.images)
    labels = arrays.labels.astype(np.int64)
    batches = in_order(images, given.batch_size)
    generator = np.random.default_rng(given.seed)

    def run(num_steps: int) -> float:
        start = time.perf_counter()
        for _ in range(num_steps):
            if trains:
                chosen = generator.integers(len(labels), size=given.batch_size)
                batch, target = (torch.from_numpy(part.take(chosen, axis=0)).to(device) for part in (images, labels))
                optimizer.zero_grad()
                functional.cross_entropy(network(batch.to(torch.float32) / 255), target).backward()
                optimizer.step()
            else:
                batch = torch.from_numpy(next(batches)).to(device)
                with torch.no_grad():  # XLA computes only results that are still referenced
                    output = network(batch.to(torch.float32) / 255)
                assert output.shape[0] == given.batch_size
            torch_xla.sync()
        xm.wait_device_ops()
        return (time.perf_counter() - start) / num_steps

    run(5)  # compiles
    return run


if __name__ == "__main__":
    cases = {name: CASES[name] for name in XLA_CASES}
    compare_all(cases, 4, {"window": XLA_WINDOW, "device": Device.xla_cpu}, engine.run, plain_xla)
