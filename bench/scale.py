"""How long many records take: `scale` (merge, report and page, a plan of 10,000 cells), `comparing` and `report`.

The records are synthetic, as long as those of the `window` protocol. `scale` makes 100,000 of ten machines: they take
five gigabytes, twice, in the temporary folder (TMPDIR). `comparing` makes 1,000 cells with 5 processes on each side.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
from selenium import webdriver

from accelbench.judging.row import summarise
from accelbench.project import RECORDS
from accelbench.report.build import build
from accelbench.schema.record import read_all
from accelbench.stats.order_statistics import median
from bench import synthetic

NUM_MACHINES = int(os.environ.get("SCALE_MACHINES", "10"))  # each has 10,000 records
TARGET_S, PLAN_TARGET_S, TARGET_GB = 30.0, 20.0, 2.0
COMPARE_TARGET_S, READ_TARGET_S = 5.0, 3.0
OPEN_TARGET_S, TARGET_MB, NUM_LOADS = 2.0, 8.0, 7
PLAN = ["model=mlp,cnn,rnn,lstm", f"batch_size={','.join(map(str, range(1, 126)))}", "precision=fp32,bf16"]
PLAN += ["mode=train,infer", "repeat=0,1,2,3,4"]
CLI = [sys.executable, "-m", "accelbench.cli"]
# Seconds from requesting the page until it is drawn and its script is done: one frame after the load event.
LOADED = """const done = arguments[0];
const paint = () => requestAnimationFrame(() => setTimeout(() => done(performance.now() / 1000)));
document.readyState === "complete" ? paint() : addEventListener("load", paint);"""
# Seconds from a click on a filter until charts and table are drawn again.
FILTERED = """const done = arguments[0], start = performance.now();
document.querySelector("#choices input").click();
requestAnimationFrame(() => setTimeout(() => done((performance.now() - start) / 1000)));"""


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
        loads, _ = times(index)
        print(f"its page, {index.stat().st_size / 1e6:.1f} MB: open and drawn in {max(loads):.2f} s at worst", end="")
        print(f" (target: at most {OPEN_TARGET_S:g} s)")
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
    """Adds the resident memory of a process and those that it started, until it ends."""
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        try:
            family = [process, *process.children(recursive=True)]
            peak.append(sum(each.memory_info().rss for each in family))
        except psutil.Error:
            pass
        time.sleep(0.1)


def comparing() -> None:
    """Prints how long comparing and summarising 10,000 records takes."""
    with tempfile.TemporaryDirectory() as scratch:
        sides = synthetic.fill_sides(Path(scratch), 1000)
        paths = [path for side in sides for path in side.glob(RECORDS)]
        start = time.perf_counter()
        done = subprocess.run([*CLI, "compare", *map(str, sides)], check=True, capture_output=True, text=True)
        compared_s = time.perf_counter() - start
        start = time.perf_counter()
        records = read_all(paths)
        for _ in records.each(summarise):
            pass
        summarised_s = time.perf_counter() - start
        start = time.perf_counter()
        for record in records:
            summarise(record)
        alone_s = time.perf_counter() - start
    print(
        f"`accelbench compare` of {len(paths):,} records: {compared_s:.1f} s (target: at most {COMPARE_TARGET_S:g} s)"
    )
    print(f"  {next(line for line in done.stdout.splitlines() if ' same' in line and line[0].isdigit())}")
    print(f"reading and summarising them: {summarised_s:.1f} s (target: at most {READ_TARGET_S:g} s)")
    print(f"  in one process, as for a report, which needs whole records: {alone_s:.1f} s")


def report() -> None:
    """Prints how long the report on 2,000 cells takes to build and to open, and how large it is."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # where the synthetic records are made
    from report.conftest import Maker
    from report.many import write

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        num_cells = write(folder / "results", Maker())
        start = time.perf_counter()
        page = build(folder / "results", folder / "report")
        print(f"built in {time.perf_counter() - start:.1f} s: {num_cells:,} cells")
        print(f"size: {page.stat().st_size / 1e6:.2f} MB (target: at most {TARGET_MB:g})")
        loads, filters = times(page)
    worst = f"at worst {max(loads):.2f} of {NUM_LOADS}"
    print(f"open and drawn: {median(loads):.2f} s, {worst} (target: at most {OPEN_TARGET_S:g})")
    print(f"a filter: {median(filters):.2f} s")


def times(page: Path) -> tuple[list[float], list[float]]:
    """Seconds until the page is drawn, and seconds until a filter is applied; one value each time it is opened."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        sys.exit("needs chromium and chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "window-size=1400,900"):
        options.add_argument(f"--{flag}")
    opened = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        loads, filters = [], []
        for _ in range(NUM_LOADS):
            opened.get("about:blank")
            opened.get(page.as_uri())
            loads.append(opened.execute_async_script(LOADED))
            filters.append(opened.execute_async_script(FILTERED))
        return loads, filters
    finally:
        opened.quit()
