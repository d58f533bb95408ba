"""Test accuracy of study 001's mlp and cnn after the study's epochs, over five seeds, on the data at hand."""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

from accelbench.data.manifest import read_manifest
from accelbench.params import project_root
from accelbench.record import FILES, read
from bench.overhead import runs_folder

NUM_SEEDS = 5
TARGETS = {"mlp": 0.973, "cnn": 0.985}  # for MNIST itself


def main() -> None:
    """Trains each network from five seeds and prints mean and spread."""
    root = project_root()
    print(f"data: {read_manifest(root / 'data' / 'mnist').source}")
    with tempfile.TemporaryDirectory(dir=runs_folder(), prefix="bench-") as folder:
        seeds = ",".join(map(str, range(NUM_SEEDS)))
        command = [sys.executable, "-m", "accelbench.cli", "-m", "model=mlp,cnn", f"seed={seeds}", "protocol=fit"]
        subprocess.run([*command, "timeout_s=7200", f"out={folder}", "tracking=none"], check=True)
        records = [read(path) for path in Path(folder).glob(FILES)]
    for model, target in TARGETS.items():
        mine = [record.measurement for record in records if record.cell.model.name == model]
        accuracies = [m.evaluation.accuracy for m in mine if m and m.evaluation and m.evaluation.accuracy]
        print(
            f"{model}: {mean(accuracies):.4f} (standard deviation {stdev(accuracies):.4f}, "
            f"{len(accuracies)} seeds; target on MNIST: {target})"
        )
