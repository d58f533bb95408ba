"""optimum-benchmark's side of `bench.peer`, run in its own environment: one cell, or a bare loop of the same network.

`python bench/peer_side.py cell|loop FOLDER` prints a JSON line; FOLDER is where the network's files are kept.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
BATCH, WARMUP, STEPS = 32, 10, 50


def main() -> None:
    """Runs the named part on the network in the folder; creates the network if needed."""
    what, folder = sys.argv[1], Path(sys.argv[2])
    if not (folder / "config.json").exists():
        _network().save_pretrained(folder)
    print(json.dumps({"cell": cell, "loop": loop}[what](folder)), flush=True)


def _network() -> Any:
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    return ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, num_labels=10, **sizes))


def cell(folder: Path) -> dict[str, float]:
    """Seconds of one cell, its process included, and the samples/s that it reports."""
    from optimum_benchmark import Benchmark, BenchmarkConfig, InferenceConfig, ProcessConfig, PyTorchConfig

    settings = BenchmarkConfig(
        name="peer",
        launcher=ProcessConfig(start_method="spawn"),
        scenario=InferenceConfig(warmup_runs=WARMUP, iterations=STEPS, duration=0, input_shapes={"batch_size": BATCH}),
        backend=PyTorchConfig(
            model=str(folder), device="cpu", task="image-classification", library="transformers", processor=str(folder)
        ),
    )
    start = time.perf_counter()
    report = Benchmark.launch(settings).to_dict()
    return {"wall_s": time.perf_counter() - start, "rate": float(report["forward"]["throughput"]["value"])}


def loop(folder: Path) -> dict[str, float]:
    """Samples/s of a plain loop."""
    import torch
    from transformers import ViTForImageClassification

    network = ViTForImageClassification.from_pretrained(folder).eval()
    images = torch.rand(BATCH, 3, 32, 32)
    with torch.no_grad():
        for _ in range(WARMUP):
            network(pixel_values=images)
        start = time.perf_counter()
        for _ in range(STEPS):
            network(pixel_values=images)
        return {"rate": STEPS * BATCH / (time.perf_counter() - start)}


if __name__ == "__main__":
    main()
