"""100,000 records of ten machines: how long merge, the report and its page take, and a plan of 10,000 cells.

The records are synthetic, as long as those of the `window` protocol. They take five gigabytes, twice, in the temporary
folder (TMPDIR).
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from bench import report as page
from bench import synthetic

NUM_MACHINES = int(os.environ.get("SCALE_MACHINES", "10"))  # each has 10,000 records
TARGET_S, PLAN_TARGET_S, OPEN_TARGET_S, TARGET_GB = 30.0, 20.0, 2.0, 2.0
PLAN = ["model=mlp,cnn,rnn,lstm", f"batch_size={','.join(map(str, range(1, 126)))}", "precision=fp32,bf16"]
PLAN += ["mode=train,infer", "repeat=0,1,2,3,4"]


def main() -> None:
    """Prints seconds and gigabytes beside what they should be at most."""
    with tempfile.TemporaryDirectory() as scratch:
        nodes, merged = Path(scratch, "nodes"), Path(scratch, "merged")
        num = synthetic.fill(nodes, NUM_MACHINES)
        what = f"{num:,} records"
        _show(f"merge of {what}", TARGET_S, "merge", *sorted(map(str, nodes.iterdir())), "--into", str(merged))
        _show("the same again", TARGET_S, "merge", *sorted(map(str, nodes.iterdir())), "--into", str(merged))
        _show(f"report of {what}", TARGET_S, "report", str(merged))
        index = merged / "report" / "index.html"
        loads, _ = page.times(index)
        print(f"its page, {index.stat().st_size / 1e6:.1f} MB: open and drawn in {max(loads):.2f} s at worst", end="")
        print(f" (target: at most {OPEN_TARGET_S:g} s)")
    _show("a plan of 10,000 cells", PLAN_TARGET_S, "plan", *PLAN)


def _show(what: str, target_s: float, *words: str) -> None:
    start = time.perf_counter()
    running = psutil.Popen([sys.executable, "-m", "accelbench.cli", *words], stdout=subprocess.DEVNULL)
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
    """Adds the resident memory of a process and those that it started, until it ends."""
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        try:
            family = [process, *process.children(recursive=True)]
            peak.append(sum(each.memory_info().rss for each in family))
        except psutil.Error:
            pass
        time.sleep(0.1)


if __name__ == "__main__":
    main()
