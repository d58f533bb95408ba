"""The times that a user waits for, in fresh processes: the median of `NUM_ROUNDS` for each, beside its goal.

The framework's files should be in the page cache. So the first round of each figure is left out.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from accelbench.stats.order_statistics import median
from bench.blocks import seconds_per_step
from bench.synthetic import NUM_PROCESSES, fill_sides
from bench.turns import CLI, new_folder, records_in, windows_s

NUM_ROUNDS = 5
NUM_RECORDS = 300
CARD = ".json\n"  # end of the card's last line, the record's path
CELL = ["model=mlp", "mode=infer", "breakdown_s=0"]


def main() -> None:
    """Prints a line for each figure."""
    print(f"{'':<58} {'goal':>6} {'median':>7}   least to most of {NUM_ROUNDS}")
    _one_cell()
    with tempfile.TemporaryDirectory() as scratch:
        sides = [str(side) for side in fill_sides(Path(scratch), NUM_RECORDS // NUM_PROCESSES)]
        for name, goal_s, words in (
            ("accelbench --help", 0.3, ["--help"]),
            ("accelbench doctr", 0.3, ["doctr"]),
            ("plan of 166 cells", 2.0, ["plan", "suite=mnist_networks", "profile=quick"]),
            ("plan of 2,484 cells", 5.0, ["plan", "suite=imagenet_inference", "profile=full"]),
            (f"best of {NUM_RECORDS} records", 1.5, ["best", sides[0]]),
            (f"compare of {NUM_RECORDS} records with as many", 1.5, ["compare", *sides]),
        ):
            _show(name, goal_s, [_seconds_of([*CLI, *words]) for _ in range(NUM_ROUNDS + 1)][1:])


def _one_cell() -> None:
    """Prints the seconds from Enter to the printed result of a cell, without the framework's import and the windows."""
    beyond = []
    with new_folder() as folder:
        for number in range(NUM_ROUNDS + 1):
            import_s = _seconds_of([sys.executable, "-c", "import torch"])
            card_s = _seconds_to_card([*CELL, f"seed={number}", f"out={folder}"])
            beyond.append(card_s - import_s - windows_s(records_in(folder)[-1]))
    # The first round is left out, because it may probe the device.
    _show("one cell, Enter to card, beyond the import and its windows", 1.5, beyond[1:])


def _seconds_of(command: Sequence[str]) -> float:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return seconds_per_step(lambda: subprocess.run(command, **quiet, check=False), 1)


def _seconds_to_card(words: Sequence[str]) -> float:
    start = time.perf_counter()
    with subprocess.Popen([*CLI, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ends = [time.perf_counter() for line in process.stdout if line.endswith(CARD)]
    assert ends, f"no card: {' '.join(words)}"
    return ends[0] - start


def _show(name: str, goal_s: float, values: Sequence[float]) -> None:
    print(f"{name:<58} {goal_s:>4g} s {median(values):>5.2f} s   {min(values):.2f} to {max(values):.2f}", flush=True)
