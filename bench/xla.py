"""Accelbench's samples/s on XLA's CPU, through Lightning's Trainer, compared with a plain torch_xla loop.

As in bench/loop.py, each round of 0.1 s is a block of accelbench's clock and as many steps of the plain loop, and the
ratio within a round is compared. It runs in a separate process, since importing torch_xla replaces parts of torch.nn.
"""

import os
import subprocess
import sys
import time
from functools import partial
from itertools import cycle

import numpy as np

from accelbench.data.arrays import load_split
from accelbench.schema.cell import Cell, Window
from accelbench.schema.vocab import Device, Mode
from bench.rounds import Reference, cell, compare, mnist, print_heading

NUM_RUNS = 4
# At least twenty rounds per run, whatever their noise.
WINDOW = Window(warmup_steps=5, warmup_s=0.5, measure_s=2.9, width=1e9, block_s=0.1, latency_s=0.0, latency_steps=1)
CASES = [("mlp", 32), ("mlp", 128), ("cnn", 64)]


def main() -> None:
    """Runs this module with PJRT's CPU."""
    subprocess.run([sys.executable, "-m", "bench.xla"], env={**os.environ, "PJRT_DEVICE": "CPU"}, check=True)


def compare_all() -> None:
    """Prints the median ratio and its 95 % interval for each case."""
    from accelbench.engines.lightning import engine

    print_heading(10)
    for model, batch_size in CASES:
        for mode in Mode:
            compared = cell(model, mode, batch_size, device=Device.xla_cpu, window=WINDOW)
            compare(f"{model} b{batch_size}", 10, compared, NUM_RUNS, engine.run, partial(plain, compared))


def plain(given: Cell) -> Reference:
    """Returns a function that measures the seconds per step of a plain loop."""
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm
    from torch.nn import functional

    from accelbench.engines.lightning import zoo

    trains = given.mode == Mode.train
    device = torch_xla.device()
    torch.manual_seed(given.seed)
    network = zoo.build(given.model, (28, 28), 10).train(trains).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-7)
    arrays = load_split(mnist(), "train" if trains else "test")
    # NumPy gathers batches: torch's threads would take cores from XLA, 2 ms per step.
    images, labels = np.asarray(arrays.images), arrays.labels.astype(np.int64)
    starts = cycle(range(0, len(labels) - given.batch_size + 1, given.batch_size))
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
                first = next(starts)
                batch = torch.from_numpy(images[first : first + given.batch_size]).to(device)
                with torch.no_grad():  # XLA computes only results that are still referenced
                    output = network(batch.to(torch.float32) / 255)
                assert output.shape[0] == given.batch_size
            torch_xla.sync()
        xm.wait_device_ops()
        return (time.perf_counter() - start) / num_steps

    run(5)  # compiles
    return run


if __name__ == "__main__":
    compare_all()
