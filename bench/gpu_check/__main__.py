"""`make gpu-check`, `make tpu-check`: one command that checks accelbench on a device, and writes a page of figures.

It needs torch, pytorch-lightning, timm and pytest, no network, and at most ten minutes. Each part runs in a process of
its own with a time limit: if it fails, the page says so, and the other parts go on.
"""

import argparse
import importlib.metadata
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu_check import packages
from bench.gpu_check.findings import IS_SIMULATED, SIMULATED, Finding, Kind, Part, page, parse

LIMIT_S = 580.0
END_S = 5.0  # after an interrupt, a part gets this much time to end by itself
FRAMEWORK = {"torch": "torch", "pytorch-lightning": "pytorch_lightning", "pytest": "pytest"}
HARDWARE = {"gpu": ["nvidiactl"], "tpu": ["accel*", "vfio/[0-9]*"]}  # device -> its files below /dev
LIBRARIES = ("torch", "pytorch-lightning", "timm", "numpy", "triton", "torch_xla", "pytest")


@dataclass(frozen=True)
class Step:
    """A part of the check."""

    title: str
    words: tuple[str, ...]  # the module and its arguments; `{seconds}` becomes the part's time limit
    seconds: float  # time that is kept for the part; it also gets the time that earlier parts leave
    devices: tuple[str, ...] = ("gpu", "tpu", "cpu")  # devices for which the part is useful


def _case(title: str, name: str, seconds: float) -> Step:
    return Step(title, ("cases", name, "{device}", "{seconds}"), seconds, ("gpu",))


# The most useful parts come first. Each part has its own time limit, and leaves out what does not fit into it.
STEPS = [
    _case("doctor", "doctor", 15),
    _case("a fork, with the installed packages imported before", "forks", 30),
    Step("ceilings", ("cells", "ceilings", "{device}", "{seconds}"), 30),
    Step("cells compared with a plain loop", ("cells", "cells", "{device}", "{seconds}"), 180),
    _case("recurrent layers and generation", "usual", 45),
    Step("CUDA graphs compared with torch.cuda.graph", ("cells", "graphs", "{device}", "{seconds}"), 40, ("gpu",)),
    _case("a CUDA graph that is skipped", "ungraphed", 30),
    _case("out of memory, and the largest batch", "memory", 50),
    _case("a function of the CPU after CUDA's start", "function", 20),
    Step("energy counter compared with power samples", ("energy",), 20, ("gpu",)),
    _case("busiest operators compared with Kineto", "operators", 15),
    _case("a second program on the GPU", "neighbour", 15),
    Step("Keras", ("cells", "keras", "{device}", "{seconds}"), 20, ("gpu",)),
    Step("tests", ("marked_tests", "{device}", "{seconds}"), 70, ("gpu", "tpu")),
]


def main(words: Sequence[str]) -> int:
    """Returns the exit status. 0: all is good, or there is no device. 1: a problem. 2: the check can't start."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_check", description=__doc__)
    # `cpu` tests the check itself quickly.
    parser.add_argument("--device", choices=["gpu", "tpu", "cpu"], default="gpu", help=argparse.SUPPRESS)
    parser.add_argument(
        "--simulated", action="store_true", help="on a simulated GPU, of a checkout: its times mean nothing"
    )
    parser.add_argument("--out", type=Path, help="the page, or its folder (default: gpu-check.txt, or tpu-check.txt)")
    chosen = parser.parse_args(words)
    page_name = f"{chosen.device}-check.txt"
    out = chosen.out or Path(page_name)
    if out.is_dir():
        out /= page_name
    if chosen.simulated and SIMULATED not in os.environ:
        return _simulated(words)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        lacking = packages.missing({**packages.NEEDED, **packages.USEFUL})
        refused = packages.install(lacking, Path(folder)) if lacking else None
        found = [str(packages.ROOT / "src"), str(packages.ROOT), folder]
        sys.path[:0] = found
        os.environ["PYTHONPATH"] = os.pathsep.join([*found, *filter(None, [os.environ.get("PYTHONPATH")])])
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order in which NVML numbers GPUs
        importlib.invalidate_caches()
        absent = _absent(chosen.device)
        # Reports the hardware even if the software here can't use it.
        has_hardware = any(any(Path("/dev").glob(pattern)) for pattern in HARDWARE.get(chosen.device, ()))
        if absent is not None and not has_hardware:
            print(f"There is no {chosen.device} here: {absent}. With one, this command would check in ten minutes:")
            print("\n".join(f"  {step.title}" for step in STEPS if chosen.device in step.devices))
            return 0
        if lacking := packages.missing({**packages.NEEDED, **FRAMEWORK}):
            absent = f"{', '.join(lacking)} can't be imported ({refused or 'install it'})"
        if absent:
            print(f"The check can't start: {absent}", file=sys.stderr)
            return 2
        return _check(chosen.device, out)


def _simulated(words: Sequence[str]) -> int:
    """Runs the same command in a process that sees a simulated GPU. Its child processes see this GPU, too."""
    sys.path[:0] = [str(packages.ROOT / "src"), str(packages.ROOT / "tests")]
    from simulated_gpu.build import build, why_not

    if reason := why_not():
        print(f"--simulated: can't simulate a GPU here: {reason}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        environment = {**os.environ, **build(Path(folder)), SIMULATED: "true", "ACCELBENCH_BUSY": "allowed"}
        command = [sys.executable, "-m", "bench.gpu_check", *words]
        return subprocess.run(command, cwd=packages.ROOT, env=environment, check=False).returncode


def _check(device: str, out: Path) -> int:
    """Runs the parts and writes the page. Returns 1 if there is a problem, else 0."""
    started = time.monotonic()
    heading = _heading(device)
    print("\n".join(heading), flush=True)
    steps = [step for step in STEPS if device in step.devices]
    parts = []
    for index, step in enumerate(steps):
        later = sum(other.seconds for other in steps[index + 1 :])
        parts.append(run(step, device, LIMIT_S - (time.monotonic() - started) - later))
    text = page([*heading, f"took {time.monotonic() - started:.0f} s"], parts)
    print(f"\n{text}")
    out.write_text(text)
    return int(any(part.problems for part in parts))


def _look(device: str) -> Any:
    from accelbench.devices.registry import look
    from accelbench.schema.cell import Device

    return look(Device(device))


def _absent(device: str) -> str | None:
    """Why this machine lacks the device. None if it has one."""
    try:
        return _look(device).reason
    except ImportError as error:
        return f"it can't be looked for ({error})"


def _heading(device: str) -> list[str]:
    report = _look(device)
    command = ["git", "-C", str(packages.ROOT), "describe", "--always", "--dirty"]
    revision = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    memory = "" if report.memory_bytes is None else f", {report.memory_bytes / 2**30:.0f} GiB"
    versions = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}
    return [
        f"accelbench {revision} on {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())}",
        *(["SIMULATED: no GPU computed, a CPU did in its place, and no time means anything"] if IS_SIMULATED else []),
        f"{device}: {report.count} x {report.name}{memory}",
        *(f"  {name} {value}" for name, value in report.details.items()),
        f"{os.cpu_count()} CPU threads, {platform.platform()}, Python {platform.python_version()}",
        "  " + ", ".join(f"{name} {versions[name]}" for name in LIBRARIES if name in versions),
    ]


def run(step: Step, device: str, seconds: float) -> Part:
    """Runs a part in its own process for at most `seconds`, and prints each finding at once."""
    part = Part(step.title)
    print(f"\n== {step.title} (at most {seconds:.0f} s)", flush=True)
    values = {"device": device, "seconds": f"{seconds - END_S:.0f}"}
    module, *arguments = (word.format(**values) for word in step.words)
    started = time.monotonic()
    command = [sys.executable, "-m", f"bench.gpu_check.{module}", *arguments]
    with tempfile.TemporaryFile("w+") as errors:
        pipes = {"stdout": subprocess.PIPE, "stderr": errors, "text": True}
        with subprocess.Popen(command, cwd=packages.ROOT, start_new_session=True, **pipes) as process:
            timer = threading.Timer(max(seconds, 1.0), os.killpg, [process.pid, signal.SIGKILL])
            timer.start()
            for line in process.stdout:
                if found := parse(line):
                    part.findings.append(found)
                    print(f"  {'' if found.kind == Kind.figure else found.kind + ': '}{found.text}", flush=True)
            status = process.wait()
        in_time = timer.is_alive()
        timer.cancel()
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["no error was printed"])[-1]
    part.seconds = time.monotonic() - started
    if status:
        reason = f"ended with status {status}: {last}" if in_time else f"did not end within {seconds:.0f} s"
        kind = Kind.skipped if IS_SIMULATED and not in_time else Kind.problem  # a CPU may be too slow
        part.findings.append(Finding(kind, reason))
        print(f"  {kind}: {reason}", flush=True)
    return part


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
