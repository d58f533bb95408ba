"""timm's own benchmark script, where there is a copy of it: it is a part of timm's repository, not of its package."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from accelbench.isolation.hosts import Hosts
from accelbench.schema.vocab import Device, Mode, Precision
from accelbench.stats.order_statistics import median
from bench.gpu_check import cases
from bench.gpu_check.findings import figure, problem, skipped

VARIABLE = "TIMM_BENCHMARK"
CANDIDATES = ("benchmark.py", "pytorch-image-models/benchmark.py", "../pytorch-image-models/benchmark.py")
BATCH = 32


def find() -> Path | None:
    """The script: the one that TIMM_BENCHMARK names, or one in or beside the current folder."""
    named = os.environ.get(VARIABLE)
    paths = [Path(named)] if named else [Path(name) for name in CANDIDATES]
    return next((path for path in paths if path.is_file()), None)


def main(seconds: float) -> None:
    """Compares inference of resnet50 by the script with accelbench's."""
    script = find()
    if script is None:
        skipped(f"there is no timm benchmark.py in or beside this folder, and {VARIABLE} names none")
        return
    end = time.monotonic() + seconds
    # Of fp32, the script leaves PyTorch's defaults, with which convolutions are computed in TF32.
    for precision, word in ((Precision.tf32, "float32"), (Precision.fp16, "float16")):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(script), "--model", "resnet50", "--bench", "inference", "-b", str(BATCH)]
            command += ["--precision", word, "--num-bench-iter", "100"]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=end - time.monotonic(), check=False)
            theirs = rate_of(ran.stdout)
            if theirs is None:
                problem(f"{precision}: {(ran.stderr.strip().splitlines() or ['no result'])[-1]}")
                continue
            cell = cases.cell(Device.gpu, cases.RESNET, Mode.infer, precision, BATCH)
            with Hosts() as hosts:
                outcome = hosts.run(cell, Path(folder))
        if outcome.measurement is None:
            problem(f"{cell.label}: {outcome.reason}")
            continue
        ours = median([block.num_samples / block.seconds for block in outcome.measurement.blocks])
        # No bounds: the script waits for each step, and lets cuDNN try its algorithms.
        figure(f"{precision}: {ours:,.0f}/s, timm's script {theirs:,.0f}/s: ratio {ours / theirs:.3f}")


def rate_of(printed: str) -> float | None:
    """Samples per second from the JSON that the script prints at its end; None if there is none."""
    start = printed.rfind("--result")
    try:
        values = json.loads(printed[start:].partition("\n")[2])
        first = values[0] if isinstance(values, list) else values
        return float(first["infer_samples_per_sec"])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


if __name__ == "__main__":
    main(float(sys.argv[1]))
