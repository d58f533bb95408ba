"""accelbench's window beside Lightning's own loop: training of study 001's mlp and cnn, in fresh processes, in turns.

The same network, optimiser and batches, gathered in memory. `python -m bench.trainer NETWORK BATCH_SIZE` has a bare
Trainer call `training_step` for each batch, as in most users' code, and prints samples/s. One thread each.
"""

import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional

from bench.turns import KEEP_MEMORY, compare_in_turns, print_heading, printed_number, rate_of, run

NUM_ROUNDS = 6
CASES = (("mlp", 32), ("mlp", 128), ("cnn", 32), ("cnn", 128))
WARMUP_S, BLOCK_S, MEASURE_S = 1.0, 0.3, 3.0
WINDOW = [f"window.warmup_s={WARMUP_S}", f"window.block_s={BLOCK_S}", f"window.measure_s={MEASURE_S}"]
WINDOW += ["window.latency_s=0.1", "breakdown_s=0", "threads=1", "mode=train"]


def main() -> None:
    """Prints the window's samples/s over those of Lightning's loop, and of the loop over itself."""
    os.environ.update({name: str(value) for name, value in KEEP_MEMORY.items()})
    print_heading(16)
    for network, size in CASES:
        by_trainer = partial(printed_number, "-m", "bench.trainer", network, size)
        compare_in_turns(f"{network} b{size}", 16, NUM_ROUNDS, partial(by_window, network, size), by_trainer)


def by_window(network: str, size: int) -> float:
    """Samples/s of a cell that the command line measures."""
    (record,) = run([f"model={network}", f"batch_size={size}", *WINDOW])
    return rate_of(record)


def by_trainer(network: str, size: int) -> float:
    """Samples/s of a Trainer's own loop: the median of blocks of steps, after a warm-up."""
    import pytorch_lightning as pl

    from accelbench.data.arrays import load_split
    from accelbench.engines.lightning import zoo
    from accelbench.schema.workload import ModelSpec
    from bench.rounds import mnist

    arrays = load_split(mnist(), "train")
    images, labels = torch.from_numpy(arrays.images), torch.from_numpy(arrays.labels).long()

    class Batches:
        def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
            for chosen in torch.randperm(len(labels)).split(size)[: len(labels) // size]:
                yield images.index_select(0, chosen), labels.index_select(0, chosen)

    class Lit(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.starts = zoo.build(ModelSpec(name=network), (28, 28), 10), []

        def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
            self.starts.append(time.perf_counter())
            self.trainer.should_stop = self.starts[-1] - self.starts[0] > WARMUP_S + MEASURE_S
            return functional.cross_entropy(self.network(batch[0].to(torch.float32).div_(255)), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=1e-3, eps=1e-7)

    module = Lit()
    pl.Trainer(accelerator="cpu", barebones=True, max_epochs=-1).fit(module, Batches())
    rates, first = [], None
    for number, start in enumerate(module.starts):
        if start - module.starts[0] < WARMUP_S:
            continue
        if first is None:
            first = number
        elif (took := start - module.starts[first]) >= BLOCK_S:
            rates.append(size * (number - first) / took)
            first = number
    return median(rates)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(by_trainer(sys.argv[1], int(sys.argv[2])))
