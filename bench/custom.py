"""Networks of a user's own: accelbench against hand-written loops, each in fresh processes, in turns.

A round is accelbench, the loop, and the loop again (A/A), in a rotating order. Compared are the ratios within a round.
The interval of accelbench's ratio should contain 1 and be no wider than 1.5 times that of the loop against itself.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from accelbench.judging.row import steady_rates
from accelbench.project import RECORDS
from accelbench.schema.record import read
from accelbench.stats.order_statistics import median, median_interval
from bench.overhead import runs_folder
from bench.own_networks import BATCH_SIZE

NUM_ROUNDS = 8
# Variables of glibc, on both sides: free memory is kept. Otherwise it is chance how much of it a process gives back to
# the kernel and asks for again: 0 to 3,200 page faults a step, and one process is 10 % faster than the next.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": 1 << 25, "MALLOC_TRIM_THRESHOLD_": 1 << 32, "MALLOC_TOP_PAD_": 1 << 26}
BOUNDS = (0.97, 1.03)
UNKNOWN = (float("nan"), float("nan"))
WINDOW = ["window.warmup_s=1", "window.block_s=0.3", "window.measure_s=4", "window.latency_s=0.1", "breakdown_s=0"]
CUSTOM = [f"model.{name}=bench.own_networks.{value}" for name, value in (("target", "Tokens"), ("batch", "make_batch"))]
LIGHTNING = ["model=lightning", "model.target=bench.own_networks.LitTokens", "data.target=bench.own_networks.TokenData"]
CELLS = {
    "train": ["model=custom", *CUSTOM, "model.loss=bench.own_networks.loss", "mode=train"],
    "infer": ["model=custom", *CUSTOM, "mode=infer"],
    "lightning": [*LIGHTNING, "mode=train"],
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
    os.environ.update({name: str(value) for name, value in KEEP_MEMORY.items()})
    print(f"{'case':<16} {'loop/s':>8} {'ratio':>6}   95 % interval   {'A/A':>6}   95 % interval   within bounds")
    cases: dict[str, tuple[Callable[[], float], str]] = {case: (partial(by_cell, case), case) for case in CELLS}
    cases |= {f"measure {mode}": (partial(by_measure, mode), mode) for mode in ("train", "infer")}
    for name, (ours, loop) in cases.items():
        report_case(name, [round_of(index, ours, partial(by_loop, loop)) for index in range(NUM_ROUNDS)])


def round_of(index: int, ours: Callable[[], float], plain: Callable[[], float]) -> tuple[float, float, float]:
    """Samples/s of accelbench and of two processes of a plain loop, in an order that rotates with `index`."""
    runs = [ours, plain, plain]
    found = [0.0] * 3
    for place in range(3):
        which = (place + index) % 3
        found[which] = runs[which]()
    return found[0], found[1], found[2]


def report_case(name: str, rounds: list[tuple[float, float, float]], width: int = 16) -> None:
    """Prints a case: the ratios of each round's first and third number to its second one.

    Args:
        name: of the case.
        rounds: as `round_of` returns them.
        width: of the column of names.
    """
    ratios = [ours / first for ours, first, _ in rounds]
    against_itself = [second / first for _, first, second in rounds]
    low, high = median_interval(ratios) or UNKNOWN
    own_low, own_high = median_interval(against_itself) or UNKNOWN
    is_near = BOUNDS[0] <= median(ratios) <= BOUNDS[1] and low <= 1 <= high
    verdict = "yes" if is_near and high - low <= 1.5 * (own_high - own_low) else "NO"
    rate = median([first for _, first, _ in rounds])
    ours, own = f"{median(ratios):>6.3f}   {low:.3f} to {high:.3f}", f"{median(against_itself):>6.3f}"
    print(f"{name:<{width}} {rate:>8,.1f} {ours}   {own}   {own_low:.3f} to {own_high:.3f}   {verdict}", flush=True)


def by_cell(case: str) -> float:
    """Samples/s of a cell that the command line measures."""
    return rate_of([*CELLS[case], f"batch_size={BATCH_SIZE}", *WINDOW])


def rate_of(settings: list[str]) -> float:
    """Samples/s of one cell of these settings: the median of its blocks."""
    with tempfile.TemporaryDirectory(dir=runs_folder(), prefix="bench-") as folder:
        words = [*settings, "tracking=none", f"out={folder}"]
        subprocess.run([sys.executable, "-m", "accelbench.cli", *words], check=True, stdout=subprocess.DEVNULL)
        (path,) = Path(folder).glob(RECORDS)
        record = read(path)
    assert record.measurement is not None, record.reason
    return median(steady_rates(record.measurement))


def by_loop(case: str) -> float:
    """Samples/s of a hand-written loop."""
    return _printed("-m", "bench.custom_side", case)


def by_measure(mode: str) -> float:
    """Samples/s of `accelbench.measure` in a process of its own."""
    return _printed("-c", f"mode = {mode!r}\n{MEASURE}")


def _printed(*words: str) -> float:
    done = subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])
