"""A user's own networks: compares accelbench with hand-written loops, in alternating fresh processes."""

import math
from functools import partial

from accelbench.judging.row import of_generation
from accelbench.schema.record import number_of
from bench.own_networks import BATCH_SIZE, GENERATED, GPT2, NEW_TOKENS, PROMPT_TOKENS
from bench.turns import Numbers, begin, compare_in_turns, measured, printed, rate_by_cell, run

NUM_ROUNDS = 8
WINDOW = ["window.warmup_s=1", "window.block_s=0.3", "window.measure_s=4", "window.latency_s=0.1", "breakdown_s=0"]
CUSTOM = [f"model.{name}=bench.own_networks.{value}" for name, value in (("target", "Tokens"), ("batch", "make_batch"))]
CELLS = {
    "train": ["model=custom", *CUSTOM, "model.loss=bench.own_networks.loss", "mode=train"],
    "infer": ["model=custom", *CUSTOM, "mode=infer"],
    "lightning": ["model=lightning", "model.target=bench.own_networks.LitTokens", "mode=train"],
}
GENERATE = ["model=transformers", "model.name=gpt2", "model.task=causal_lm", "mode=generate", "data.pipeline=fresh"]
GENERATE += [f"model.args.{name}={value}" for name, value in GPT2.items()]
GENERATE += [f"generate.prompt_tokens={PROMPT_TOKENS}", f"generate.new_tokens={NEW_TOKENS}"]
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
    """Prints for each case the median ratio to the loop, and the ratio of the loop to itself, with 95 % intervals."""
    begin(20)
    for case, words in CELLS.items():
        by_cell = partial(rate_by_cell, *words, f"batch_size={BATCH_SIZE}", *WINDOW)
        compare_in_turns([case], 20, NUM_ROUNDS, by_cell, partial(by_loop, case))
    compare_in_turns(GENERATED, 20, NUM_ROUNDS, by_generation, partial(by_loop, "generate"))
    for mode in ("train", "infer"):
        by_measure = partial(printed, "-c", f"mode = {mode!r}\n{MEASURE}")
        compare_in_turns([f"measure {mode}"], 20, NUM_ROUNDS, by_measure, partial(by_loop, mode))


def by_generation() -> Numbers:
    """The columns `GENERATED` of a cell that generates."""
    (record,) = run([*GENERATE, f"batch_size={BATCH_SIZE}", *WINDOW])
    assert (generation := measured(record).generation) is not None
    row = of_generation(record.cell, generation)
    return tuple(number_of(row, column) or math.nan for column in GENERATED)


def by_loop(case: str) -> Numbers:
    """Samples/s of a hand-written loop; for generation, the columns `GENERATED`."""
    return printed("-m", "bench.own_networks", case)
