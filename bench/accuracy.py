"""Test accuracy of study 001's mlp and cnn after the study's epochs, over five seeds, of each engine."""

from statistics import mean, stdev

from accelbench.data.arrays import read_manifest
from accelbench.project import workplace
from accelbench.schema.vocab import Engine
from accelbench.stats.means import mean_difference
from bench.turns import run

NUM_SEEDS = 5
TARGETS = {"mlp": 0.973, "cnn": 0.985}  # for MNIST itself


def main() -> None:
    """Trains each network from five seeds and prints mean and spread."""
    print(f"data: {read_manifest(workplace().root / 'data' / 'mnist').source}")
    axes = [f"engine={','.join(Engine)}", f"model={','.join(TARGETS)}", f"seed={','.join(map(str, range(NUM_SEEDS)))}"]
    records = run(["-m", *axes, "protocol=fit", "timeout_s=7200"])
    for model, target in TARGETS.items():
        found: dict[Engine, list[float]] = {engine: [] for engine in Engine}
        for record in records:
            tested = record.measurement and record.measurement.evaluation
            if record.cell.model.name == model and tested and tested.accuracy:
                found[record.cell.engine].append(tested.accuracy)
        for engine, values in found.items():
            spread = f"standard deviation {stdev(values):.4f}, {len(values)} seeds"
            print(f"{model} {engine}: {mean(values):.4f} ({spread}; target on MNIST: {target})")
        gain = mean_difference(found[Engine.keras], found[Engine.lightning])
        print(f"{model}: Keras minus Lightning: {gain.low:+.4f} to {gain.high:+.4f} with 95 % confidence")
