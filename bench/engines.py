"""Engines of exported networks: accelbench against each engine's own plain script, in fresh processes, in turns.

A round is accelbench, the script, and the script again (A/A), in a rotating order. Compared are the ratios within a
round. The interval of accelbench's ratio should contain 1 and be no wider than 1.5 times that of the script against
itself.
"""

import os
import subprocess
import sys
from functools import partial

from bench.custom import KEEP_MEMORY, rate_of, report_case, round_of

NUM_ROUNDS = 6
WINDOW = ["window.warmup_s=0.5", "window.block_s=0.2", "window.measure_s=2", "window.latency_s=0.1", "breakdown_s=0"]
NETWORKS = {"resnet18": "torchvision", "mobilenetv2_100": "timm"}
CASES = [
    *((engine, network, size) for engine in ("onnxruntime", "openvino") for network in NETWORKS for size in (1, 16)),
    ("aotinductor", "resnet18", 16),  # each of its processes compiles for half a minute
]


def main() -> None:
    """Prints the median ratio of each case with its 95 % interval, and that of the script against itself."""
    os.environ.update({name: str(value) for name, value in KEEP_MEMORY.items()})
    print(f"{'case':<32} {'plain/s':>8} {'ratio':>6}   95 % interval   {'A/A':>6}   95 % interval   within bounds")
    for case in CASES:
        rounds = [round_of(index, partial(by_cell, *case), partial(by_script, *case)) for index in range(NUM_ROUNDS)]
        report_case(" ".join(map(str, case)), rounds, 32)


def by_cell(engine: str, network: str, batch_size: int) -> float:
    """Samples/s of a cell that the command line measures."""
    settings = [f"engine={engine}", f"model={NETWORKS[network]}", f"model.name={network}", "mode=infer"]
    return rate_of([*settings, f"batch_size={batch_size}", "data=random", *WINDOW])


def by_script(engine: str, network: str, batch_size: int) -> float:
    """Samples/s of the engine's plain script."""
    words = [sys.executable, "-m", "bench.engines_side", engine, network, str(batch_size)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
