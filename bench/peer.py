"""A cell of ours and a cell of optimum-benchmark: what each takes, and how far its samples/s are from a bare loop's.

The peer has an environment of its own, `.venv-peer`, made from bench/peer.lock. Both measure a vision transformer of
two layers on 32 x 32 images, batch 32, 10 warm-up and 50 measured steps, in a process of its own; each beside a bare
loop of its own libraries, in a fresh process, in rounds.

Then both measure resnet18 at batch 16 in fp32 on ONNX Runtime and OpenVINO, for as long as each tool does by default.
The seconds of a cell are those after the tool was imported: accelbench forks its process from a host that has imported
PyTorch, optimum-benchmark starts a new one. accelbench exports a network for its first cell; further ones, such as
repeats, load it. The peer does not start with the newest releases of PyTorch and OpenVINO.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from accelbench.isolation.hosts import Hosts
from accelbench.judging.row import steady_rates
from accelbench.lock import hold_measuring
from accelbench.project import workplace
from accelbench.schema.vocab import Library, Mode, Pipeline, Protocol, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.stats.order_statistics import median
from bench.engines import by_cell
from bench.peer_side import BATCH, ENGINES, ENGINES_BATCH, STEPS, WARMUP
from bench.rounds import cell

ROUNDS, ENGINES_ROUNDS = 7, 3
NETWORK = "timm.models.vision_transformer.VisionTransformer"
SIZES = {
    "img_size": 32,
    "patch_size": 8,
    "embed_dim": 64,
    "depth": 2,
    "num_heads": 2,
    "mlp_ratio": 2,
    "num_classes": 10,
}
LOOP = f"""
import json, time, torch
from {NETWORK.rpartition(".")[0]} import VisionTransformer
torch.manual_seed(0)
network, images = VisionTransformer(**{SIZES}).eval(), torch.rand({BATCH}, 3, 32, 32)
with torch.no_grad():
    for _ in range({WARMUP}):
        network(images)
    start = time.perf_counter()
    for _ in range({STEPS}):
        network(images)
    print(json.dumps({{"rate": {STEPS * BATCH} / (time.perf_counter() - start)}}))
"""


def main() -> None:
    """Prints a row for each tool: medians over the rounds; then one for each engine."""
    root = workplace().root
    python = _environment(root)
    with tempfile.TemporaryDirectory() as folder, Hosts() as hosts:
        side = [str(python), str(root / "bench" / "peer_side.py")]
        with hold_measuring(print):
            _beside_loops(hosts, root, side, folder)
        resnet18 = Path(folder, "resnet18")
        resnet18.mkdir()
        print(
            f"{'engine':<12} {'ours/s':>8} {'theirs/s':>8} {'ratio':>6} {'s, theirs':>9}"
            f" {'first':>8} {'ratio':>6} {'further':>8} {'ratio':>6}"
        )
        for engine in ENGINES:
            _on_engine(hosts, engine, [*side, engine, str(resnet18)])


def _beside_loops(hosts: Hosts, root: Path, side: list[str], folder: str) -> None:
    _ours(hosts, root)  # starts the host, as a sweep's first cell does
    rounds = [
        {
            "ours": _ours(hosts, root),
            "our loop": _printed([sys.executable, "-c", LOOP], folder),
            "peer": _printed([*side, "cell", folder], folder),
            "peer's loop": _printed([*side, "loop", folder], folder),
        }
        for _ in range(ROUNDS)
    ]
    print(f"{'tool':<20} {'s per cell':>10} {'samples/s':>10} {'bare loop':>10} {'ratio':>7}   (medians of {ROUNDS})")
    for tool, own, loop in (("accelbench", "ours", "our loop"), ("optimum-benchmark", "peer", "peer's loop")):
        walls, rates, bare = (
            [each[name][key] for each in rounds] for name, key in ((own, "wall_s"), (own, "rate"), (loop, "rate"))
        )
        ratios = [rate / plain for rate, plain in zip(rates, bare, strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(
            f"{tool:<20} {median(walls):>10.2f} {median(rates):>10,.0f} {median(bare):>10,.0f} {median(ratios):>7.2f}"
            f"   ({spread})"
        )


def _on_engine(hosts: Hosts, engine: str, command: list[str]) -> None:
    """Prints the row of an engine: samples/s and seconds of a cell, and ours over theirs."""
    by_cell(hosts, engine, "resnet18", ENGINES_BATCH, ())  # starts the engine's host, as above
    found: dict[str, list[dict[str, float]]] = {"first": [], "further": [], "theirs": []}
    for seed in range(1, ENGINES_ROUNDS + 1):
        ours = partial(by_cell, hosts, engine, "resnet18", ENGINES_BATCH, (f"seed={seed}",))  # of other weights
        if seed % 2:
            found["theirs"].append(_printed(command, command[-1]))
        found["first"].append(_timed(ours))
        found["further"].append(_timed(ours))
        if not seed % 2:
            found["theirs"].append(_printed(command, command[-1]))
    rates, walls = (
        {side: median([each[key] for each in of]) for side, of in found.items()} for key in ("rate", "wall_s")
    )
    row = f"{engine:<12} {rates['further']:>8,.1f} {rates['theirs']:>8,.1f} {rates['further'] / rates['theirs']:>6.2f}"
    row += f" {walls['theirs']:>9.1f}"
    for side in ("first", "further"):
        row += f" {walls[side]:>8.1f} {walls[side] / walls['theirs']:>6.2f}"
    print(row, flush=True)


def _timed(rate_of: Callable[[], float]) -> dict[str, float]:
    start = time.perf_counter()
    return {"rate": rate_of(), "wall_s": time.perf_counter() - start}


def _environment(root: Path) -> Path:
    """The path of the peer's Python; creates its environment if needed."""
    folder = root / ".venv-peer"
    python = folder / "bin" / "python"
    uv, lock = root / ".venv" / "bin" / "uv", root / "bench" / "peer.lock"
    if not python.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    subprocess.run([uv, "pip", "sync", "--quiet", "--python", python, "--require-hashes", lock], check=True)
    return python


def _ours(hosts: Hosts, root: Path) -> dict[str, float]:
    """Seconds of one cell, its process included, and the samples/s of its free-running blocks."""
    vit = ModelSpec(
        name="vit", library=Library.custom, network=NETWORK, args=SIZES, input_shape=(3, 32, 32), num_classes=10
    )
    resident = DataSpec(name="random", pipeline=Pipeline.device)
    length = {"protocol": Protocol.steps, "warmup": WARMUP, "steps": STEPS, "breakdown_s": 0.3}
    measured = cell(vit, Mode.infer, BATCH, data=resident, **length)
    start = time.perf_counter()
    outcome = hosts.run(measured, root / "data" / "random")
    wall_s = time.perf_counter() - start
    assert outcome.status == Status.ok, outcome.reason
    assert outcome.measurement is not None
    return {"wall_s": wall_s, "rate": median(steady_rates(outcome.measurement))}


def _printed(command: list[str], folder: str) -> dict[str, float]:
    """Runs a command in `folder` and returns the JSON in its last line of JSON; the peer logs to the same stream."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    line = [line for line in done.stdout.splitlines() if line.startswith("{")][-1]
    result: dict[str, float] = json.JSONDecoder().raw_decode(line)[0]  # the peer's log may go on behind it
    return result
