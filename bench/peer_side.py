"""optimum-benchmark's side of `bench.peer`, run in its own environment: a cell, or a bare loop of the same network.

`python bench/peer_side.py PART FOLDER` prints a JSON line. PART is `cell` or `loop` (a vision transformer on PyTorch),
`onnxruntime` or `openvino` (a cell of resnet18 on this engine). FOLDER is where the network's files are kept.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
BATCH, WARMUP, STEPS = 32, 10, 50
ENGINES, ENGINES_BATCH = ("onnxruntime", "openvino"), 16


def main() -> None:
    """Runs the named part on the network in the folder; creates the network if needed."""
    part, folder = sys.argv[1], Path(sys.argv[2])
    is_engine = part in ENGINES
    if not (folder / "config.json").exists():
        (_resnet18 if is_engine else _transformer)(folder)
    found = on_engine(part, folder) if is_engine else {"cell": cell, "loop": loop}[part](folder)
    print(json.dumps(found), flush=True)


def _transformer(folder: Path) -> None:
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    network = ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, num_labels=10, **sizes))
    network.save_pretrained(folder)


def _resnet18(folder: Path) -> None:
    import torch
    from transformers import ConvNextImageProcessor, ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    sizes = {"embedding_size": 64, "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2], "layer_type": "basic"}
    ResNetForImageClassification(ResNetConfig(num_labels=1000, **sizes)).save_pretrained(folder)
    ConvNextImageProcessor(size={"shortest_edge": 224}).save_pretrained(folder)


def cell(folder: Path) -> dict[str, float]:
    """Seconds of one cell, its process included, and the samples/s of the median step that it reports."""
    import optimum_benchmark as peer

    scenario = peer.InferenceConfig(
        warmup_runs=WARMUP, iterations=STEPS, duration=0, input_shapes={"batch_size": BATCH}
    )
    return _launched(folder, scenario, peer.PyTorchConfig)


def on_engine(engine: str, folder: Path) -> dict[str, float]:
    """The same on another engine, for as long as optimum-benchmark measures by default."""
    import optimum_benchmark as peer

    shapes = {"batch_size": ENGINES_BATCH, "num_channels": 3, "height": 224, "width": 224}
    scenario = peer.InferenceConfig(input_shapes=shapes)
    if engine == "onnxruntime":
        return _launched(folder, scenario, peer.ORTConfig, export=True)
    # By default OpenVINO computes in 16 bits where the CPU has them.
    return _launched(folder, scenario, peer.OVConfig, export=True, ov_config={"INFERENCE_PRECISION_HINT": "f32"})


def _launched(folder: Path, scenario: Any, backend: Any, **more: object) -> dict[str, float]:
    import optimum_benchmark as peer

    where = {"model": str(folder), "processor": str(folder), "library": "transformers", "device": "cpu"}
    settings = peer.BenchmarkConfig(
        name="peer",
        launcher=peer.ProcessConfig(start_method="spawn"),
        scenario=scenario,
        backend=backend(task="image-classification", **where, **more),
    )
    start = time.perf_counter()
    report = peer.Benchmark.launch(settings).to_dict()
    took_s = time.perf_counter() - start
    return {"wall_s": took_s, "rate": scenario.input_shapes["batch_size"] / report["forward"]["latency"]["p50"]}


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
