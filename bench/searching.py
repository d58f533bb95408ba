"""The best by racing, for resnet18 at batch 16: against ten cells that an engineer would try, and against eager fp32.

The search gets five minutes for its grid. Then each of the ten cells is measured in full, one process after the other,
and so is the search's answer, at the end: the machine may have changed since.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from accelbench.answers.groups import groups
from accelbench.report.read import read
from bench.custom import rate_of
from bench.overhead import runs_folder

NETWORK = ["model=torchvision", "model.name=resnet18", "mode=infer", "batch_size=16", "data=random"]
GRID = ["engine=lightning,onnxruntime,openvino", "precision=fp32,bf16,int8", "threads=1,2", "channels_last=false,true"]
BUDGET = "5m"
EAGER = ["engine=lightning", "precision=fp32"]
TEN = [
    EAGER,
    [*EAGER, "channels_last=true"],
    [*EAGER, "compile=true"],
    ["engine=lightning", "precision=bf16"],
    ["engine=lightning", "precision=bf16", "channels_last=true"],
    ["engine=onnxruntime", "precision=fp32"],
    ["engine=onnxruntime", "precision=int8"],
    ["engine=openvino", "precision=fp32"],
    ["engine=openvino", "precision=bf16"],
    ["engine=openvino", "precision=int8"],
]


def main() -> None:
    """Prints the search's own answer, a row for each of the ten cells, and how the answer compares."""
    with tempfile.TemporaryDirectory(dir=runs_folder(), prefix="bench-") as folder:
        words = ["best", "--search", "--budget", BUDGET, *NETWORK, *GRID, f"out={folder}"]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "accelbench.cli", *words], check=True)
        print(f"the search took {time.perf_counter() - start:.0f} s")
        (group,) = groups(read(Path(folder)).cells)
    winner = group.fastest.cell
    chosen = [f"engine={winner.engine}", f"precision={winner.precision}"]
    chosen += [] if winner.threads is None else [f"threads={winner.threads}"]
    chosen += ["channels_last=true"] if winner.options.channels_last else []
    rates = {" ".join(each): _rate(each) for each in TEN}
    found = _rate(chosen)
    for text, rate in sorted(rates.items(), key=lambda item: -item[1]):
        print(f"{text:<60} {rate:>8,.1f} samples/s")
    print(f"found: {' '.join(chosen):<53} {found:>8,.1f} samples/s")
    eager, top = rates[" ".join(EAGER)], max(rates.values())
    print(
        f"over eager fp32: {found / eager:.2f} (goal 4); over the best of the ten: {found / top:.2f} (goal 1, +- 5 %)"
    )


def _rate(settings: list[str]) -> float:
    """Samples/s of one process; 0 of a cell that can't run here."""
    try:
        return rate_of([*NETWORK, *settings])
    except (AssertionError, subprocess.CalledProcessError):
        return 0.0
