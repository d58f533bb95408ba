"""Trains on two virtual CPU devices, as a script: TensorFlow divides the CPU before it has run anything.

It writes the losses, and each replica's weights.
"""

import json
import sys
from pathlib import Path

import numpy as np


def main(digits, out):
    from accelbench.engines.keras import engine
    from accelbench.engines.keras.backends import backend_for
    from accelbench.judging.asked import judge
    from engines.keras.cells import trained

    cell = trained(devices=2)
    backend = backend_for(cell)
    run = engine._Run(cell, digits, backend)
    measured = run.measure()
    replicas = [backend.strategy.experimental_local_results(weight.value) for weight in run.model.trainable_weights]
    found = {
        "judged": judge(cell, measured),
        "num_devices": measured.num_devices,
        "num_compiles": measured.num_compiles,
        "losses": [epoch.loss for epoch in measured.epochs],
        "tested": [epoch.evaluation.loss for epoch in measured.epochs],
        "accuracies": [epoch.evaluation.accuracy for epoch in measured.epochs],
        "num_samples": [epoch.num_samples for epoch in measured.epochs],
        "num_replicas": [len(each) for each in replicas],
        "equal": [bool(np.array_equal(a.numpy(), b.numpy())) for a, b in replicas],
        "devices": sorted({part.device for each in replicas for part in each}),
        "weights": [each[0].numpy().tolist() for each in replicas],
    }
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
