"""What a cell costs apart from its windows: process, model, Trainer, record, tracking, configuration.

25 small CPU cells through the command line, tracking included. Of the time from the second cell's start to
the end of the process, what is not warm-up or measurement is overhead.
"""

import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from accelbench.project import RECORDS, workplace
from accelbench.schema.record import Record, read
from accelbench.stats.robust import median

NUM_CELLS = 24
TARGET_S = 0.5


def main() -> None:
    """Prints the overhead per cell."""
    measure("lightning", TARGET_S)


def measure(engine: str, target_s: float) -> None:
    """Prints the overhead per cell of one engine, and how long its first cell took, the framework's import included."""
    with tempfile.TemporaryDirectory(dir=runs_folder(), prefix="bench-") as folder:
        command = [
            sys.executable,
            "-m",
            "accelbench.cli",
            "-m",
            f"engine={engine}",
            "model=mlp",
            "model.args.widths=[64,64,64,64]",
            "mode=infer",
        ]
        command += [f"seed={','.join(map(str, range(NUM_CELLS + 1)))}", "window.measure_s=0.5", "window.latency_s=0.2"]
        start = time.time()
        subprocess.run([*command, f"out={folder}", "tracking=mlflow"], check=True, stdout=subprocess.DEVNULL)
        end = time.time()
        records = sorted(map(read, Path(folder).glob(RECORDS)), key=lambda record: record.started_at)
    assert len(records) == NUM_CELLS + 1, "a cell has no record"
    began = [datetime.fromisoformat(record.started_at).timestamp() for record in records]
    windows = [windows_s(record) for record in records[1:]]
    per_cell = (end - began[1] - sum(windows)) / NUM_CELLS
    gaps = [after - before - window for before, after, window in zip(began[1:], began[2:], windows, strict=False)]
    print(f"overhead per cell: {per_cell:.3f} s over {NUM_CELLS} cells (target: at most {target_s} s)")
    print(f"  median from one cell's start to the next, less its windows: {median(gaps):.3f} s")
    print(f"  before the first cell: {began[0] - start:.2f} s; first cell: {records[0].wall_s:.2f} s")


def runs_folder() -> Path:
    """Where the command line may write."""
    folder = workplace().root / "runs"
    folder.mkdir(exist_ok=True)
    return folder


def windows_s(record: Record) -> float:
    """Seconds of warm-up and measurement in one record."""
    measured = record.measurement
    assert measured is not None, record.reason
    return measured.warmup_total_s + sum(block.seconds for block in measured.blocks) + sum(measured.latency_s)
