"""Engines of exported networks: compares accelbench with a plain script for each engine, in alternating processes.

accelbench's cells are forked from one host, as in a sweep. Cells and scripts load networks that another process has
exported, in the first round or earlier. This leaves time for nine rounds. Their interval leaves out the lowest and the
highest ratio.
"""

import io
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console

from accelbench.isolation.hosts import Hosts
from accelbench.settings.compose import one_cell
from accelbench.sweep import run as sweep
from bench.turns import Numbers, begin, compare_in_turns, new_folder, printed, rate_of

NUM_ROUNDS = 9
WINDOW = ["window.warmup_s=0.5", "window.block_s=0.2", "window.measure_s=2", "window.latency_s=0.1", "breakdown_s=0"]
NETWORKS = {"resnet18": "torchvision", "mobilenetv2_100": "timm"}
SIZES = (1, 16)
CASES = [
    *((engine, network, size) for engine in ("onnxruntime", "openvino") for network in NETWORKS for size in SIZES),
    *(("aotinductor", "resnet18", size) for size in SIZES),  # its compilation takes half a minute
]
SIDE = ("-m", "bench.engines_side")


def main() -> None:
    """Prints for each case the median ratio to the script, and of the script to itself, with 95 % intervals."""
    begin(32)
    with Hosts() as hosts, tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            exported = Path(folder, "-".join(map(str, case)))
            exported.mkdir()
            subprocess.run([sys.executable, *SIDE, "export", *map(str, case), exported], check=True)
            by_script = partial(printed, *SIDE, "run", *case, exported)
            compare_in_turns([" ".join(map(str, case))], 32, NUM_ROUNDS, partial(by_cell, hosts, *case), by_script)


def by_cell(hosts: Hosts, engine: str, network: str, batch_size: int) -> Numbers:
    """Samples/s of a cell that is measured as in a sweep: the median of its blocks."""
    words = [f"engine={engine}", f"model={NETWORKS[network]}", f"model.name={network}", "mode=infer", "data=random"]
    cell, options = one_cell(" ".join([*words, f"batch_size={batch_size}", "tracking=none", *WINDOW]))
    with new_folder() as folder:
        result = sweep.run([cell], options, Console(file=io.StringIO()), folder, hosts=hosts, show=lambda result: None)
    (record,) = result.records
    return (rate_of(record),)
