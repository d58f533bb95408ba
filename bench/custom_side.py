"""One hand-written loop of `custom`, in a process of its own: `python -m bench.custom_side CASE`.

It prints samples/s: the median of blocks of the same length as accelbench's, after a warm-up.
"""

import itertools
import sys
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from bench.blocks import steps_per_s
from bench.own_networks import BATCH_SIZE, NUM_BATCHES, Tokens, loader, loss, make_batch

WARMUP_S, BLOCK_S, MEASURE_S = 1.0, 0.3, 4.0


def main(case: str) -> None:
    """Runs the loop of one case: `train`, `infer` or `lightning`."""
    torch.manual_seed(0)
    step = infer() if case.endswith("infer") else train(lightning=case == "lightning")
    print(BATCH_SIZE * steps_per_s(step, WARMUP_S, BLOCK_S, MEASURE_S))


def train(*, lightning: bool) -> Callable[[], object]:
    """A training step over some batches; for Lightning's case from a DataLoader, with AdamW."""
    source = batches_of_loader() if lightning else itertools.cycle([make_batch(BATCH_SIZE) for _ in range(NUM_BATCHES)])
    network = Tokens().train()
    if lightning:
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    else:
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, eps=1e-7)

    def step() -> None:
        batch = next(source)
        optimizer.zero_grad()
        loss(network(batch["ids"]), batch).backward()
        optimizer.step()

    return step


def batches_of_loader() -> Iterator[dict[str, Tensor]]:
    """The DataLoader's batches, epoch after epoch."""
    source = loader(BATCH_SIZE)
    while True:
        for ids, labels in source:
            yield {"ids": ids, "labels": labels}


def infer() -> Callable[[], object]:
    """An inference step over some batches."""
    source = itertools.cycle([make_batch(BATCH_SIZE)["ids"] for _ in range(NUM_BATCHES)])
    network = Tokens().eval()

    def step() -> object:
        with torch.inference_mode():
            return network(next(source))

    return step


if __name__ == "__main__":
    main(sys.argv[1])
