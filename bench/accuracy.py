"""Test accuracy of study 001's mlp and cnn after the study's epochs, over five seeds, of each engine."""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

from accelbench.data.manifest import read_manifest
from accelbench.project import RECORDS, workplace
from accelbench.schema.record import Record, read
from accelbench.schema.vocab import Engine
from accelbench.stats.means import mean_difference
from bench.overhead import runs_folder

NUM_SEEDS = 5
TARGETS = {"mlp": 0.973, "cnn": 0.985}  # for MNIST itself


def main() -> None:
    """Trains each network from five seeds and prints mean and spread."""
    root = workplace().root
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
        gain = mean_difference(found[Engine.keras], found[Engine.lightning])
        verdict = "holds 0: the same" if gain.low <= 0 <= gain.high else "DOES NOT HOLD 0"
        bounds = f"{gain.low:+.4f} to {gain.high:+.4f} with 95 % confidence"
        print(f"{model}: Keras minus Lightning: {bounds}, which {verdict}")


def accuracies(records: list[Record], model: str, engine: Engine) -> list[float]:
    """Accuracies on the test set, one value per seed."""
    mine = [record for record in records if (record.cell.model.name, record.cell.engine) == (model, engine)]
    tested = [record.measurement.evaluation for record in mine if record.measurement]
    return [each.accuracy for each in tested if each and each.accuracy]
