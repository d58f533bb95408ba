"""accelbench's window beside Lightning's own loop: training of study 001's mlp and cnn, in fresh processes, in turns.

The same network, optimiser and batches, gathered in memory. `python -m bench.trainer NETWORK BATCH_SIZE` has a bare
Trainer call `training_step` for each batch, as in most users' code, and prints samples/s. One thread each.
"""

import sys
import time
from functools import partial
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional

from bench.turns import begin, compare_in_turns, printed_number, rate_by_cell

NUM_ROUNDS = 6
CASES = (("mlp", 32), ("mlp", 128), ("cnn", 32), ("cnn", 128))
WARMUP_S, BLOCK_S, MEASURE_S = 1.0, 0.3, 3.0
WINDOW = [f"window.warmup_s={WARMUP_S}", f"window.block_s={BLOCK_S}", f"window.measure_s={MEASURE_S}"]
WINDOW += ["window.latency_s=0.1", "breakdown_s=0", "threads=1", "mode=train"]


def main() -> None:
    """Prints the window's samples/s over those of Lightning's loop, and of the loop over itself."""
    begin(16)
    for network, size in CASES:
        by_window = partial(rate_by_cell, f"model={network}", f"batch_size={size}", *WINDOW)
        by_loop = partial(printed_number, "-m", "bench.trainer", network, size)
        compare_in_turns(f"{network} b{size}", 16, NUM_ROUNDS, by_window, by_loop)


def by_trainer(network: str, size: int) -> float:
    """Samples/s of a Trainer's own loop: the median of blocks of steps, after a warm-up."""
    import pytorch_lightning as pl

    from accelbench.data.arrays import load_split
    from accelbench.engines.lightning import zoo
    from accelbench.schema.workload import ModelSpec
    from bench.loop import shuffled
    from bench.rounds import mnist

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

    module, batches = Lit(), shuffled(load_split(mnist(), "train"), size)
    pl.Trainer(accelerator="cpu", barebones=True, max_epochs=-1).fit(module, batches)
    steady = [start for start in module.starts if start - module.starts[0] >= WARMUP_S]
    num = max(1, round(BLOCK_S * len(steady) / MEASURE_S))  # steps in a block
    return median(size * num / (end - start) for start, end in zip(steady[::num], steady[num::num], strict=False))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(by_trainer(sys.argv[1], int(sys.argv[2])))
