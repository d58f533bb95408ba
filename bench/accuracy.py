"""Test accuracy of study 001's mlp and cnn after the study's epochs, over five seeds, of each engine."""

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
    """Trains each network from five seeds and prints mean and spread."""
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
        verdict = "holds 0: the same" if low <= 0 <= high else "DOES NOT HOLD 0"
        print(f"{model}: Keras minus Lightning: {low:+.4f} to {high:+.4f} with 95 % confidence, which {verdict}")


def accuracies(records: list[Record], model: str, engine: Engine) -> list[float]:
    """Accuracies on the test set, one value per seed."""
    mine = [record for record in records if (record.cell.model.name, record.cell.engine) == (model, engine)]
    tested = [record.measurement.evaluation for record in mine if record.measurement]
    return [each.accuracy for each in tested if each and each.accuracy]


def difference(first: list[float], second: list[float]) -> tuple[float, float]:
    """The 95 % interval of the difference of two means (Welch's)."""
    shares = [stdev(values) ** 2 / len(values) for values in (first, second)]
    freedom = sum(shares) ** 2 / sum(
        share**2 / (len(values) - 1) for share, values in zip(shares, (first, second), strict=True)
    )
    half = t.ppf(0.975, freedom) * math.sqrt(sum(shares))
    middle = mean(first) - mean(second)
    return middle - half, middle + half
