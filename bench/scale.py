"""Times work on many records: `scale` (merge, report and page, a plan of 10,000 cells), `comparing` and `report`.

The records are synthetic, and as long as records of the `window` protocol. `scale` makes 100,000 records of ten
machines. They and their merged copies take ten gigabytes in the temporary folder (TMPDIR). `comparing` makes 1,000
cells with 5 processes on each side.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import psutil

from accelbench.judging.row import summarise
from accelbench.project import RECORDS
from accelbench.report.build import build
from accelbench.report.read import read_all as read_sweeps
from accelbench.schema.record import read_all
from accelbench.stats.order_statistics import median
from bench import synthetic
from bench.blocks import seconds_per_step
from bench.turns import CLI

NUM_MACHINES = int(os.environ.get("SCALE_MACHINES", "10"))  # each has 10,000 records
TARGET_S, PLAN_TARGET_S, TARGET_GB = 30.0, 20.0, 2.0
COMPARE_TARGET_S, READ_TARGET_S = 5.0, 3.0
OPEN_TARGET_S, TARGET_MB, NUM_LOADS = 2.0, 8.0, 7
PLAN = ["model=mlp,cnn,rnn,lstm", f"batch_size={','.join(map(str, range(1, 126)))}", "precision=fp32,bf16"]
PLAN += ["mode=train,infer", "repeat=0,1,2,3,4"]
# Seconds from the request of the page until one frame after its load event: it is drawn, and its script has ended.
LOADED = """const done = arguments[0];
const paint = () => requestAnimationFrame(() => setTimeout(() => done(performance.now() / 1000)));
document.readyState === "complete" ? paint() : addEventListener("load", paint);"""


def main() -> None:
    """Prints seconds and gigabytes beside their limits."""
    with tempfile.TemporaryDirectory() as scratch:
        nodes, merged = Path(scratch, "nodes"), Path(scratch, "merged")
        what = f"{synthetic.fill(nodes, NUM_MACHINES):,} records"
        for name in (f"merge of {what}", "the same again"):
            _show(name, TARGET_S, "merge", *sorted(map(str, nodes.iterdir())), "--into", str(merged))
        _show(f"report of {what}", TARGET_S, "report", str(merged))
        _show_page(merged / "report" / "index.html")
    _show("a plan of 10,000 cells", PLAN_TARGET_S, "plan", *PLAN)


def _show(what: str, target_s: float, *words: str) -> None:
    start = time.perf_counter()
    running = psutil.Popen([*CLI, *words], stdout=subprocess.DEVNULL)
    peak: list[int] = []
    watcher = threading.Thread(target=_watch, args=(running, peak))
    watcher.start()
    status = running.wait()
    seconds = time.perf_counter() - start
    watcher.join()
    failed = f", failed with status {status}" if status else ""
    print(f"{what}: {seconds:.1f} s (target: at most {target_s:g}), ", end="")
    print(f"{max(peak, default=0) / 1e9:.2f} GB (target: at most {TARGET_GB:g}){failed}", flush=True)


def _watch(process: psutil.Popen, peak: list[int]) -> None:
    """Adds the memory of a process and its descendants to `peak` until the process ends. Shared memory counts once."""
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        try:
            family = [process, *process.children(recursive=True)]
            peak.append(sum(each.memory_full_info().pss for each in family))
        except psutil.Error:
            pass
        time.sleep(0.1)


def comparing() -> None:
    """Prints the seconds to compare and to summarise 10,000 records."""
    with tempfile.TemporaryDirectory() as scratch:
        sides = synthetic.fill_sides(Path(scratch), 1000)
        paths = [path for side in sides for path in side.glob(RECORDS)]
        comparison = partial(subprocess.run, [*CLI, "compare", *sides], check=True, stdout=subprocess.DEVNULL)
        records = read_all(paths)
        for what, target, call in (
            (f"`accelbench compare` of {len(paths):,} records", COMPARE_TARGET_S, comparison),
            ("reading and summarising them", READ_TARGET_S, lambda: list(map(summarise, records))),
        ):
            print(f"{what}: {seconds_per_step(call, 1):.1f} s (target: at most {target:g} s)", flush=True)


def report() -> None:
    """Prints the seconds to build and to open the report on 2,000 cells, and its size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        num_cells = synthetic.fill(folder / "results", num_machines=1, num_processes=1)
        seconds = seconds_per_step(
            lambda: build(read_sweeps(folder / "results"), folder / "results", folder / "report"), 1
        )
        print(f"built in {seconds:.1f} s: {num_cells:,} cells")
        _show_page(folder / "report" / "index.html")


def _show_page(page: Path) -> None:
    """Prints the size of a page, and the seconds until it is drawn."""
    from browsing import chromium  # in tests/, which bench.synthetic adds to the path

    loads = []
    with chromium("window-size=1400,900") or sys.exit("needs chromium and chromedriver on the PATH") as opened:
        for _ in range(NUM_LOADS):
            opened.get("about:blank")
            opened.get(page.as_uri())
            loads.append(opened.execute_async_script(LOADED))
    worst = f"at worst {max(loads):.2f} of {NUM_LOADS}"
    print(f"its page, {page.stat().st_size / 1e6:.2f} MB (target: at most {TARGET_MB:g})")
    print(f"open and drawn: {median(loads):.2f} s, {worst} (target: at most {OPEN_TARGET_S:g})")
