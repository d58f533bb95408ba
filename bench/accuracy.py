"""Test accuracy of study 001's mlp and cnn after the study's number of epochs: five seeds for each engine."""

import math
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

from scipy.stats import t

from accelbench.data.manifest import read_manifest
from accelbench.project import RECORDS, project_root
from accelbench.schema.record import Record, read
from accelbench.schema.vocab import Engine
from bench.overhead import runs_folder

NUM_SEEDS = 5
TARGETS = {"mlp": 0.973, "cnn": 0.985}  # for MNIST itself


def main() -> None:
    """Trains each network from five seeds; prints mean, spread and the difference between the engines."""
    root = project_root()
    print(f"data: {read_manifest(root / 'data' / 'mnist').source}")
    with tempfile.TemporaryDirectory(dir=runs_folder(), prefix="bench-") as folder:
        seeds = ",".join(map(str, range(NUM_SEEDS)))
        axes = [f"engine={','.join(Engine)}", f"model={','.join(TARGETS)}", f"seed={seeds}"]
        command = [sys.executable, "-m", "accelbench.cli", "-m", *axes, "protocol=fit"]
        subprocess.run([*command, "timeout_s=7200", f"out={folder}", "tracking=none"], check=True)
        records = [read(path) for path in Path(folder).glob(RECORDS)]
    for model, target in TARGETS.items():
        found = {engine: accuracies(records, model, engine) for engine in Engine}
        for engine, values in found.items():
            print(
                f"{model} {engine}: {mean(values):.4f} (standard deviation {stdev(values):.4f}, "
                f"{len(values)} seeds; target on MNIST: {target})"
            )
        low, high = difference(found[Engine.keras], found[Engine.lightning])
        verdict = "contains 0: no difference" if low <= 0 <= high else "DOES NOT CONTAIN 0"
        print(f"{model}: Keras minus Lightning: {low:+.4f} to {high:+.4f} (95 % interval), which {verdict}")


def accuracies(records: list[Record], model: str, engine: Engine) -> list[float]:
    """Accuracies on the test set, one per seed."""
    chosen = [record for record in records if (record.cell.model.name, record.cell.engine) == (model, engine)]
    evaluations = [record.measurement.evaluation for record in chosen if record.measurement]
    return [evaluation.accuracy for evaluation in evaluations if evaluation and evaluation.accuracy]


def difference(mine: list[float], theirs: list[float]) -> tuple[float, float]:
    """The 95 % interval of the difference of two means (Welch's)."""
    shares = [stdev(values) ** 2 / len(values) for values in (mine, theirs)]
    freedom = sum(shares) ** 2 / sum(
        share**2 / (len(values) - 1) for share, values in zip(shares, (mine, theirs), strict=True)
    )
    half = t.ppf(0.975, freedom) * math.sqrt(sum(shares))
    middle = mean(mine) - mean(theirs)
    return middle - half, middle + half
