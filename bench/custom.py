"""Networks of a user's own: accelbench against hand-written loops, each in fresh processes, in turns."""

from functools import partial

from bench.own_networks import BATCH_SIZE
from bench.turns import begin, compare_in_turns, printed_number, rate_by_cell

NUM_ROUNDS = 8
WINDOW = ["window.warmup_s=1", "window.block_s=0.3", "window.measure_s=4", "window.latency_s=0.1", "breakdown_s=0"]
CUSTOM = [f"model.{name}=bench.own_networks.{value}" for name, value in (("target", "Tokens"), ("batch", "make_batch"))]
CELLS = {
    "train": ["model=custom", *CUSTOM, "model.loss=bench.own_networks.loss", "mode=train"],
    "infer": ["model=custom", *CUSTOM, "mode=infer"],
    "lightning": ["model=lightning", "model.target=bench.own_networks.LitTokens", "mode=train"],
}
MEASURE = """
import accelbench, bench.own_networks as own, torch
from accelbench.schema.cell import Window
torch.manual_seed(0)
window = Window(warmup_s=1.0, block_s=0.3, measure_s=4.0, latency_s=0.1)
extra = {"loss": own.loss} if mode == "train" else {}
batch = own.make_batch(own.BATCH_SIZE)
print(accelbench.measure(own.Tokens(), batch, mode=mode, window=window, **extra).samples_per_s)
"""


def main() -> None:
    """Prints the median ratio of each case with its 95 % interval, and that of the loop against itself."""
    begin(16)
    for case, words in CELLS.items():
        by_cell = partial(rate_by_cell, *words, f"batch_size={BATCH_SIZE}", *WINDOW)
        compare_in_turns(case, 16, NUM_ROUNDS, by_cell, partial(by_loop, case))
    for mode in ("train", "infer"):
        by_measure = partial(printed_number, "-c", f"mode = {mode!r}\n{MEASURE}")
        compare_in_turns(f"measure {mode}", 16, NUM_ROUNDS, by_measure, partial(by_loop, mode))


def by_loop(case: str) -> float:
    """Samples/s of a hand-written loop."""
    return printed_number("-m", "bench.own_networks", case)
