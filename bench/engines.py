"""Engines of exported networks: accelbench against each engine's own plain script, in fresh processes, in turns.

A round is accelbench, the script, and the script again (A/A), in a rotating order. Compared are the ratios within a
round. The interval of accelbench's ratio should contain 1 and be no wider than 1.5 times that of the script against
itself.

accelbench's cells are forked from one host, as those of a sweep are. They and the scripts load what another process has
exported before, in the first round or before it: that leaves time for nine rounds, whose interval leaves out the lowest
and the highest ratio.
"""

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from accelbench.isolation.hosts import Hosts
from accelbench.judging.row import steady_rates
from accelbench.schema.vocab import Status
from accelbench.settings.compose import one_cell
from accelbench.stats.order_statistics import median
from accelbench.sweep import run
from bench.custom import KEEP_MEMORY, report_case, round_of
from bench.overhead import runs_folder

NUM_ROUNDS = 9
WINDOW = ["window.warmup_s=0.5", "window.block_s=0.2", "window.measure_s=2", "window.latency_s=0.1", "breakdown_s=0"]
NETWORKS = {"resnet18": "torchvision", "mobilenetv2_100": "timm"}
SIZES = (1, 16)
CASES = [
    *((engine, network, size) for engine in ("onnxruntime", "openvino") for network in NETWORKS for size in SIZES),
    *(("aotinductor", "resnet18", size) for size in SIZES),  # it compiles for half a minute
]


def main() -> None:
    """Prints the median ratio of each case with its 95 % interval, and that of the script against itself."""
    os.environ.update({name: str(value) for name, value in KEEP_MEMORY.items()})
    print(f"{'case':<32} {'plain/s':>8} {'ratio':>6}   95 % interval   {'A/A':>6}   95 % interval   within bounds")
    with Hosts() as hosts, tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            name = " ".join(map(str, case))
            exported = Path(folder, name.replace(" ", "-"))
            exported.mkdir()
            _script("export", *case, exported)
            sides = partial(by_cell, hosts, *case), partial(by_script, *case, exported)
            report_case(name, [round_of(index, *sides) for index in range(NUM_ROUNDS)], 32)


def by_cell(hosts: Hosts, engine: str, network: str, batch_size: int, settings: Sequence[str] = WINDOW) -> float:
    """Samples/s of a cell, measured as one of a sweep: the median of its blocks."""
    words = [f"engine={engine}", f"model={NETWORKS[network]}", f"model.name={network}", "mode=infer", "data=random"]
    with tempfile.TemporaryDirectory(dir=runs_folder(), prefix="bench-") as folder:
        cell, options = one_cell(" ".join([*words, f"batch_size={batch_size}", "tracking=none", *settings]))
        quiet = Console(file=io.StringIO())
        result = run.run([cell], options, quiet, Path(folder), hosts=hosts, show=lambda result: None)
    (record,) = result.records
    assert record.status == Status.ok, record.reason
    assert record.measurement is not None
    return median(steady_rates(record.measurement))


def by_script(engine: str, network: str, batch_size: int, exported: Path) -> float:
    """Samples/s of the engine's plain script."""
    return float(_script("run", engine, network, batch_size, exported).splitlines()[-1])


def _script(*words: object) -> str:
    command = [sys.executable, "-m", "bench.engines_side", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
