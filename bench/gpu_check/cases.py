"""Checks of known and possible faults on GPUs: `python -m bench.gpu_check.cases PART DEVICE SECONDS`."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from accelbench.devices.registry import look
from accelbench.engines.registry import HostSpec, host_spec
from accelbench.grid.support import why_not
from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Cell, Device, Mode, Precision
from bench.gpu_check import plain
from bench.gpu_check.cells import CNN, LONGEST_CASE_S, CellFailedError, cell, described, measure
from bench.gpu_check.findings import IS_SIMULATED, figure, problem, skipped

# Packages whose import starts CUDA, or might. A process that cells are forked from must not have started CUDA.
# TensorFlow and JAX are left out, because they never share a process with torch.
PACKAGES = ("torchvision", "timm", "transformers", "triton", "flash_attn", "mamba_ssm", "causal_conv1d", "bitsandbytes")
PACKAGES += ("torchao", "onnx", "onnxruntime", "onnxscript", "openvino", "nncf", "torchmetrics", "lightning")
# Cells that once failed on every GPU, as words of the command line.
SHORT = "data=random tracking=none breakdown_s=0 window.measure_s=0.5 window.latency_s=0.2 window.latency_steps=20"
if IS_SIMULATED:
    SHORT = "data=random tracking=none breakdown_s=0 window.measure_s=0.1 window.latency_s=0.05 window.latency_steps=5 "
    SHORT += "window.block_s=0.02 window.warmup_s=0.05 window.warmup_steps=2 batch_size=2"
GPT2 = "model=transformers model.name=gpt2 model.task=causal_lm model.args.n_layer=2 model.args.n_embd=192 "
GPT2 += "model.args.n_head=3 mode=generate generate.prompt_tokens=32 generate.new_tokens=16"
USUAL = ("model=lstm mode=train", "model=lstm mode=infer", "model=rnn mode=train precision=tf32")
USUAL += (GPT2, f"{GPT2} precision=bf16 data.pipeline=device")
OWN = "model=custom model.output=any mode=infer model.input_shape=[3,64,64] "
OWN += "model.target=bench.gpu_check.networks."
UNGRAPHED = f"{OWN}OnTheHost compile=true cuda_graphs=true data.pipeline=device"
FULL = f"{OWN}Full data.pipeline=device"
LARGEST = "tracking=none model=mlp mode=train batch_size=4096 data=random device=gpu "
LARGEST += f"model.args.widths=[{4096 if IS_SIMULATED else 131072}]"
STARTED_S = time.monotonic()
NEIGHBOUR = """import time, torch
factor = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
print("ready", flush=True)
while True:
    for _ in range(50):
        factor @ factor
    torch.cuda.synchronize()"""


def left_s() -> float:
    """The remaining seconds of this part."""
    return float(sys.argv[3]) - (time.monotonic() - STARTED_S)


def doctor(device: Device) -> None:
    """Reports the output of `accelbench doctor`."""
    ran = subprocess.run(
        [sys.executable, "-m", "accelbench.cli", "doctor"], capture_output=True, text=True, check=False
    )
    for line in ran.stdout.splitlines():
        figure(line.rstrip())
    if ran.returncode:
        problem((ran.stderr.strip().splitlines() or ["it printed no error"])[-1])


def forks(device: Device) -> None:
    """Checks a cell that is forked from a process with all installed packages imported."""
    names = tuple(name for name in PACKAGES if importlib.util.find_spec(name))

    def spec_of(cell: Cell) -> HostSpec:
        spec = host_spec(cell)
        return replace(spec, preload=(*spec.preload, *names))

    started = time.monotonic()
    with Hosts(spec_of) as hosts:
        measure(hosts, cell(device, CNN, Mode.train, Precision.fp32))
    figure(f"computes after {', '.join(names)} were imported before the fork ({time.monotonic() - started:.0f} s)")


def from_words(words: str, device: Device) -> Cell | None:
    """The cell of these words. If this machine skips the cell, reports this and returns None."""
    from accelbench.settings.compose import one_cell

    tried = one_cell(f"{SHORT} {words} device={device}")[0]
    library = tried.model.library.value
    reason = why_not(tried, look(device))
    if tried.model.library == "transformers" and importlib.util.find_spec(library) is None:
        reason = f"{library} is not installed"
    if reason is not None:
        skipped(f"{tried.label}: {reason}")
    return None if reason is not None else tried


def usual(device: Device) -> None:
    """Checks networks with special layers on a GPU, and a language model that generates."""
    with Hosts() as hosts:
        for num, words in enumerate(USUAL):
            if left_s() < LONGEST_CASE_S:
                skipped(f"not run: no time was left for {len(USUAL) - num} cells, the first {words}")
                return
            if (tried := from_words(words, device)) is not None:
                reported(hosts, tried)


def reported(hosts: Hosts, tried: Cell) -> None:
    """Measures a cell. If it fails, reports a problem, and the other cells continue."""
    try:
        measured = measure(hosts, tried)
    except CellFailedError as error:
        problem(f"{tried.label}: {error}")
        return
    figure(f"{tried.label:<34} {described(measured, tried)}")
    for warning in measured.warnings:
        figure(f"  doubt: {warning}")


def ungraphed(device: Device) -> None:
    """Checks that the record has a note if a compiled network can't be replayed as CUDA graphs."""
    if IS_SIMULATED:
        skipped("not run: a simulated GPU has none of Triton's kernels")
        return
    if (tried := from_words(UNGRAPHED, device)) is None:
        return
    with Hosts() as hosts:
        warnings = measure(hosts, tried).warnings
    if any("not replayed as CUDA graphs" in warning for warning in warnings):
        figure(f"{tried.label}: {'; '.join(warnings)}")
    else:
        problem(f"{tried.label}: its graphs were skipped without a doubt")


def memory(device: Device) -> None:
    """Checks that a convolution without memory ends as `oom`, and that the largest batch is found."""
    if (tried := from_words(FULL, device)) is not None:
        with Hosts() as hosts, tempfile.TemporaryDirectory() as folder:
            outcome = hosts.run(tried, Path(folder))
        told = figure if outcome.status == "oom" else problem
        told(f"a convolution without memory: {outcome.status}: {outcome.reason}")
    words = ["best", "--largest-batch", "--budget", f"{max(1.0, left_s() - LONGEST_CASE_S):.0f}s", *LARGEST.split()]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "accelbench.cli", *words]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    last = (
        [line for line in ran.stdout.splitlines() if line and "Records" not in line] or ran.stderr.splitlines() or [""]
    )[-1]
    is_found = re.search(r"largest batch that fits: [\d,]+.*; [\d,]+ does not", ran.stdout)
    if is_found:
        figure(f"{LARGEST}: {is_found[0]}")
    elif "budget" in last:
        skipped(f"{LARGEST}: {last}")
    else:
        problem(f"{LARGEST}: {last}")


def function(device: Device) -> None:
    """Checks that `accelbench.measure` measures a function of the CPU in a process that has started CUDA."""
    import torch

    import accelbench

    factor = torch.ones(256, 256)
    torch.zeros(1, device="cuda").sum().item()
    found = accelbench.measure(lambda: factor @ factor, device="cpu")
    figure(f"after CUDA's start, a product of the CPU takes {1e3 * (found.latency_p50_ms or 0.0):.0f} us")


def operators(device: Device) -> None:
    """Checks that the longest operators of a record are the same as in a plain loop, by Kineto."""
    if IS_SIMULATED:
        skipped("not run: a simulated GPU has no times of kernels")
        return
    tried = replace(cell(device, CNN, Mode.train, Precision.fp32), breakdown_s=0.2)
    with Hosts() as hosts:
        ours = [each.name for each in measure(hosts, tried).operators][:3]
    theirs = plain.busiest(tried)[:3]
    told = figure if ours and ours[0] in theirs else problem
    told(f"busiest operators: {', '.join(ours)}; by Kineto: {', '.join(theirs)}")


def neighbour(device: Device) -> None:
    """Checks that a cell is disturbed if another program uses the GPU."""
    if IS_SIMULATED:
        skipped("not run: programs do not share a simulated GPU")
        return
    import accelbench

    with busy(), tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        words = f"{SHORT} model=cnn mode=infer device={device} quiet_s=0"
        (found,) = accelbench.run(words, quiet=True)
    told = figure if found.status == "disturbed" else problem
    told(f"beside a program that multiplies matrices on the GPU: {found.status}: {found.reason}")


@contextmanager
def busy() -> Iterator[None]:
    """Runs another program on the GPU during the block."""
    with subprocess.Popen([sys.executable, "-c", NEIGHBOUR], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


PARTS: dict[str, Callable[[Device], None]] = {
    each.__name__: each for each in (doctor, forks, usual, ungraphed, memory, function, operators, neighbour)
}

if __name__ == "__main__":
    try:
        PARTS[sys.argv[1]](Device(sys.argv[2]))
    except CellFailedError as error:
        problem(str(error))
    except ModuleNotFoundError as error:  # such as Hydra, on a machine with few packages besides torch
        skipped(f"not run: {error.name} is not installed")
