"""Accelbench's samples/s compared with two known ways to time a network: `torch.utils.benchmark.Timer`, and timm's.

timm (benchmark.py of pytorch-image-models) runs 10 warm-up and 40 timed steps over one batch on the device, and waits
for each step. All run in one process, in rounds: a block of accelbench's clock, inside the Trainer, and as many steps
of the reference; which is first alternates. The ratio within a round is compared. Both networks have the same seed.
"""

import time
from collections.abc import Callable
from functools import partial, partialmethod
from unittest.mock import patch

import torch
from torch.nn import functional
from torch.utils.benchmark import Timer

from accelbench.engines.lightning import engine, zoo
from accelbench.measuring.runner import Runner
from accelbench.project import workplace
from accelbench.schema.cell import Cell, Window
from accelbench.schema.vocab import Device, Engine, Library, Mode, Pipeline, Precision, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.stats.order_statistics import median, median_interval
from bench.rounds import BOUNDS, run_both

SHAPE, NUM_CLASSES, BATCH = (3, 224, 224), 1000, 16
WARMUP = 10
NUM_RUNS = 4
# At least sixteen rounds per run, whatever their noise; a round of a slow network is one step.
WINDOW = Window(warmup_steps=WARMUP, measure_s=12.0, width=1e9, latency_s=0.0, latency_steps=1)
MODELS = ("resnet18", "mobilenetv2_100")


def main() -> None:
    """Prints the median ratio and its 95 % interval for each network, mode and reference."""
    heads = f"{'network':<16} {'mode':<6} {'reference':<10} {'its/s':>7} {'ratio':>6}"
    print(f"{heads}   95 % interval   rounds   within bounds")
    for model in MODELS:
        for mode in Mode:
            for name, reference in {"Timer": by_timer, "timm": by_timm}.items():
                rounds = compare(model, mode, reference)
                ratios = [theirs / ours for ours, theirs in rounds]
                low, high = median_interval(ratios) or (float("nan"),) * 2
                verdict = "yes" if BOUNDS[0] <= low and high <= BOUNDS[1] else "NO"
                rate = BATCH / median([theirs for _, theirs in rounds])
                print(
                    f"{model:<16} {mode:<6} {name:<10} {rate:>7.1f} {median(ratios):>6.3f}"
                    f"   {low:.3f} to {high:.3f}  {len(ratios):>6}   {verdict}",
                    flush=True,
                )


def compare(
    model: str, mode: Mode, reference: Callable[[Callable[[], object], int], float]
) -> list[tuple[float, float]]:
    """Seconds per step of accelbench and of the reference, one pair per round."""
    cell = Cell(
        suite="bench",
        engine=Engine.lightning,
        device=Device.cpu,
        model=ModelSpec(name=model, library=Library.timm, input_shape=SHAPE, num_classes=NUM_CLASSES),
        data=DataSpec(name="random", pipeline=Pipeline.device),
        mode=mode,
        precision=Precision.fp32,
        batch_size=BATCH,
        protocol=Protocol.window,
        epochs=1,
        window=WINDOW,
        breakdown_s=0.0,
    )
    rounds: list[tuple[float, float]] = []
    for _ in range(NUM_RUNS):
        step = training(cell) if mode == Mode.train else inference(cell)
        for _ in range(WARMUP):
            step()
        with patch.object(Runner, "block", partialmethod(run_both, partial(reference, step), rounds)):
            engine.run(cell, workplace().root / "data" / "random")
    return rounds


def by_timer(step: Callable[[], object], num_steps: int) -> float:
    """Seconds per step by PyTorch's timer, with the threads that accelbench uses."""
    timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
    return float(timer.timeit(num_steps).mean)


def by_timm(step: Callable[[], object], num_steps: int) -> float:
    """Seconds per step, added up as in timm's `InferenceBenchmarkRunner`."""
    total = 0.0
    for _ in range(num_steps):
        start = time.perf_counter()
        step()
        total += time.perf_counter() - start
    return total / num_steps


def training(cell: Cell) -> Callable[[], object]:
    """A training step that repeats one batch."""
    torch.manual_seed(cell.seed)
    network = zoo.build(cell.model, SHAPE, NUM_CLASSES).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=cell.model.learning_rate, eps=1e-7)
    images, labels = torch.randn(BATCH, *SHAPE), torch.randint(NUM_CLASSES, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return step


def inference(cell: Cell) -> Callable[[], object]:
    """An inference step that repeats one batch."""
    torch.manual_seed(cell.seed)
    network = zoo.build(cell.model, SHAPE, NUM_CLASSES).eval()
    images = torch.randn(BATCH, *SHAPE)

    def step() -> object:
        with torch.inference_mode():
            return network(images)

    return step
