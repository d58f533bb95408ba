"""The overhead of a cell: the time for its process, model, Trainer, record, tracking and configuration.

The command line measures 25 small CPU cells, with tracking. The overhead is the time from the second cell's start to
the end of the process, without warm-up and measurement. The second figure is the time of the checks of cells with the
default window, from their records.
"""

import math
import time
from datetime import datetime

from bench.turns import measured, run, windows_s

NUM_CELLS = 24
TARGET_S = 0.5
CHECKS_S, CHECKS_SHARE = 0.15, 0.03  # targets
TOKENS = ["model=custom", "model.target=bench.own_networks.Tokens", "model.batch=bench.own_networks.make_batch"]
NETWORKS = {
    "mlp": ["model=mlp", "batch_size=32"],
    "cnn": ["model=cnn", "batch_size=32"],
    "resnet18": ["model=torchvision", "model.name=resnet18", "batch_size=16"],
    "tokens": [*TOKENS, "model.loss=bench.own_networks.loss", "batch_size=8"],
}


def main() -> None:
    """Prints the overhead per cell."""
    measure("pytorch", TARGET_S)
    print(f"checks, seconds per cell and share of its wall time (targets: {CHECKS_S} s, {CHECKS_SHARE:.0%})")
    for name, words in NETWORKS.items():
        for record in run(["-m", *words, "mode=infer,train", "seed=0,1,2"]):
            checks_s = measured(record).checks_s
            assert checks_s is not None
            share = checks_s / (record.wall_s or math.nan)
            kept = checks_s <= CHECKS_S and share <= CHECKS_SHARE
            print(f"  {name:<9} {record.cell.mode:<6} {checks_s:.3f} s {share:6.1%}{'' if kept else '  above'}")


def measure(engine: str, target_s: float) -> None:
    """Prints the overhead per cell of one engine."""
    words = [f"engine={engine}", "model=mlp", "model.args.widths=[64,64,64,64]", "mode=infer"]
    words += [f"seed={','.join(map(str, range(NUM_CELLS + 1)))}", "window.measure_s=0.5", "window.latency_s=0.2"]
    records = run(["-m", *words], "mlflow")
    end = time.time()
    assert len(records) == NUM_CELLS + 1, "a cell has no record"
    began = [datetime.fromisoformat(record.started_at).timestamp() for record in records]
    per_cell = (end - began[1] - sum(map(windows_s, records[1:]))) / NUM_CELLS
    print(f"overhead per cell: {per_cell:.3f} s over {NUM_CELLS} cells (target: at most {target_s} s)")
