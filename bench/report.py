"""The report on 2,000 synthetic cells: how long it takes to build and to open in chromium, and how large it is."""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from selenium import webdriver

from accelbench.report.build import build
from accelbench.stats.order_statistics import median

NUM_LOADS = 7
TARGET_S, TARGET_MB = 2.0, 8.0
# Seconds from requesting the page until it is drawn and its script is done: one frame after the load event.
LOADED = """const done = arguments[0];
const paint = () => requestAnimationFrame(() => setTimeout(() => done(performance.now() / 1000)));
document.readyState === "complete" ? paint() : addEventListener("load", paint);"""
# Seconds from a click on a filter until charts and table are drawn again.
FILTERED = """const done = arguments[0], start = performance.now();
document.querySelector("#choices input").click();
requestAnimationFrame(() => setTimeout(() => done((performance.now() - start) / 1000)));"""


def main() -> None:
    """Prints seconds and megabytes beside what they should be at most."""
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
    print(f"open and drawn: {median(loads):.2f} s, {worst} (target: at most {TARGET_S:g})")
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
