"""Checks measurements of accelbench on the device: `python -m bench.gpu_check.cells PART DEVICE SECONDS`.

`ceilings` probes the device as a sweep does. `cells` compares each cell, in a fresh process, with a plain loop before
and after it. `graphs` does the same with CUDA graphs. `keras` runs two cells on Keras, in Keras' own environment.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accelbench.devices.registry import look
from accelbench.grid.support import why_not
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import judge
from accelbench.project import MANIFEST, workplace
from accelbench.schema.ceilings import TRUE_PRECISIONS
from accelbench.schema.cell import (
    STEP_MODES,
    Cell,
    DataSpec,
    Device,
    Engine,
    KerasSettings,
    Library,
    Mode,
    ModelSpec,
    Options,
    Pipeline,
    Precision,
    Status,
    Window,
)
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import load, plain
from accelbench.stats.order_statistics import median
from bench import rounds
from bench.gpu_check.findings import IS_SIMULATED, figure, problem, skipped, within
from bench.gpu_check.plain import PlainFailedError, step_s

WINDOW = Window(measure_s=1.0, width=0.01, latency_s=0.2, latency_steps=20)
if IS_SIMULATED:  # a slow CPU computes
    WINDOW = Window(measure_s=0.1, block_s=0.02, latency_s=0.05, latency_steps=5, warmup_s=0.05, warmup_steps=2)
TIMEOUT_S = 60.0
LONGEST_CASE_S = 15.0  # no case begins if less time is left
LONGEST_OF_NETWORKS_S = 25.0
LONG_STEP_S = 0.001
LONG_STEP_BOUNDS = (0.97, 1.03)
SHORT_STEP_BOUNDS = (0.9, 1.1)  # bounds for short steps: most of their time is launches, which vary between processes
# The most common ones come first. The last ones are left out if there is no time for them.
PRECISIONS = (Precision.bf16, Precision.tf32, Precision.fp32, Precision.fp16)
BATCH_SIZES = (2,) if IS_SIMULATED else (256, 64, 16)
ON_XLA = [Precision.fp32, Precision.bf16_mixed, Precision.bf16]
MLP = ModelSpec(name="mlp", args={"widths": [512, 512, 512, 512], "dropout": 0.45})
CNN = ModelSpec(name="cnn", args={"channels": 64, "dropout": 0.2})
# timm, where torchvision is missing. Simulated, a CPU computes.
LIBRARY = Library.torchvision if importlib.util.find_spec("torchvision") else Library.timm
SIDE, NAME = (32, "resnet18") if IS_SIMULATED else (224, "resnet50")
RESNET = ModelSpec(name=NAME, library=LIBRARY, input_shape=(3, SIDE, SIDE), num_classes=1000)

HOST, RESIDENT = (DataSpec(name="random", pipeline=each) for each in (Pipeline.host, Pipeline.device))
KERAS_PYTHON = ".venv-keras-gpu/bin/python"


def cell(
    device: Device, model: ModelSpec, mode: Mode, precision: Precision, batch_size: int = 128, **others: Any
) -> Cell:
    """A short cell. By default, its only batch of random images is on the device. `others`: further settings."""
    if (precision, mode) == (Precision.fp16, Mode.train):  # Adam's epsilon underflows in fp16
        model = replace(model, optimizer="sgd")
    settings = {"suite": "gpu_check", "window": WINDOW, "timeout_s": TIMEOUT_S, "data": RESIDENT} | others
    return rounds.cell(model, mode, batch_size, device=device, precision=precision, **settings)


def compared(device: Device) -> Iterator[Cell]:
    """The cells that are compared with a plain loop on `device`. For a CPU, only a few, which test the check itself."""
    if device == Device.gpu:
        yield from on_gpu()
        return
    for precision in ON_XLA:
        for model in (MLP, CNN) if device == Device.tpu else (MLP,):
            for mode in STEP_MODES:
                yield cell(device, model, mode, precision)


def on_gpu() -> Iterator[Cell]:
    """Cells of a well-known network. As by default in a sweep, each step copies a batch to the GPU."""
    for batch_size in BATCH_SIZES:
        for precision in PRECISIONS:
            for mode in STEP_MODES:
                tried = cell(Device.gpu, RESNET, mode, precision, batch_size, data=HOST)
                yield tried
                if (precision, batch_size) == (Precision.bf16, BATCH_SIZES[0]):
                    yield replace(tried, options=Options(channels_last=True))


def of_graphs() -> Iterator[Cell]:
    """Cells of inference with a CUDA graph, and a cell without one that shows the gain."""
    for model, batch_size in ((CNN, 8), (RESNET, BATCH_SIZES[-1])):
        yield cell(Device.gpu, model, Mode.infer, Precision.fp32, batch_size)
        yield cell(Device.gpu, model, Mode.infer, Precision.fp32, batch_size, options=Options(cuda_graphs=True))


@dataclass
class Pair:
    """The times of one cell: seconds per step of accelbench, and of the plain loop before and after it."""

    ours_s: float
    plain_s: tuple[float, float]

    def __post_init__(self) -> None:
        mean_s = sum(self.plain_s) / 2
        self.ratio = mean_s / self.ours_s  # accelbench's samples/s over the plain loop's
        self.bounds = LONG_STEP_BOUNDS if mean_s > LONG_STEP_S else SHORT_STEP_BOUNDS
        self.is_good = IS_SIMULATED or within(self.ratio, self.bounds)  # times of a simulated GPU have no meaning
        self.spread = abs(self.plain_s[0] - self.plain_s[1]) / mean_s  # relative difference of the two plain loops


class CellFailedError(Exception):
    """The cell has no measurement. The message is the reason."""


def probe(device: Device) -> None:
    """Probes the device in each true precision that it supports."""
    cells = {word: cell(device, MLP, Mode.infer, word) for word in TRUE_PRECISIONS}
    wanted = [word for word, tried in cells.items() if why_not(tried, look(device)) is None]
    with Hosts() as hosts:
        outcome = hosts.probe(cells[Precision.fp32], wanted)
    found = outcome.ceilings
    if found is None:
        problem(f"nothing was probed: {outcome.reason}")
        return
    for word, rate in found.flops_per_s.items():
        figure(f"{word:<6} {rate / 1e12:>9.4g} TFLOP/s")
    figure(f"memory {found.memory_bytes_per_s / 1e9:>9,.0f} GB/s")
    figure(f"launch {found.launch_s * 1e6:>9.2f} us")
    for word in wanted:
        if word not in found.flops_per_s:
            problem(f"{word}: no kernel ran")
    if found.device != device:
        problem(f"{found.device} was probed instead of {device}")


def on_keras(device: Device) -> None:
    """Runs two cells on Keras, in Keras' own environment."""
    python = workplace().root / KERAS_PYTHON
    root = workplace().root
    if not python.exists():
        skipped("Keras' GPU environment is not installed (make setup-keras-gpu)")
        return
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    for model in (MLP, CNN):
        tried = cell(device, model, Mode.infer, Precision.fp32)
        tried = replace(tried, engine=Engine.keras, keras=KerasSettings(), data=HOST)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, MANIFEST).touch()  # random images need no data set
            path = Path(folder, "cell.json")
            path.write_text(json.dumps(plain(tried)))
            command = [python, "-m", "accelbench.worker", path, folder]
            pipes = {"capture_output": True, "text": True}
            ran = subprocess.run(command, env=environment, timeout=TIMEOUT_S, check=False, **pipes)
        if not ran.stdout:
            problem(f"{tried.label}: {(ran.stderr.strip().splitlines() or ['no answer'])[-1]}")
        elif (values := json.loads(ran.stdout))["status"] == "ok":
            figure(f"{tried.label:<34} {described(load(Measurement, values['measurement']), tried)}")
        else:
            problem(f"{tried.label}: {values['status']}: {values['reason']}")


def run_cells(cells: Iterable[Cell], end: float, longest_s: float = LONGEST_CASE_S) -> None:
    """Compares cells until about `end`. If a ratio is outside of its bounds, the comparison is repeated once."""
    waiting = [(each, True) for each in possible(cells)]
    if not waiting:
        problem("no cell can run here")
        return
    with Hosts() as hosts:
        for tried, _ in waiting:
            hosts.start(tried)
        while waiting:
            tried, may_repeat = waiting.pop(0)
            if time.monotonic() > end - longest_s:
                skipped(f"not run: no time was left for {len(waiting) + 1} cells, the first {tried.label}")
                return
            try:
                if not _is_final(hosts, tried, may_repeat=may_repeat):
                    waiting.append((tried, False))
            except CellFailedError as error:
                problem(f"{tried.label}: {error}")
            except PlainFailedError as error:
                problem(f"{tried.label}: the plain loop failed: {error}")


def possible(cells: Iterable[Cell]) -> Iterator[Cell]:
    """The cells that this machine supports. Reports the others."""
    for tried in cells:
        library = tried.model.library.value
        if tried.model.library != Library.accelbench and importlib.util.find_spec(library) is None:
            skipped(f"{tried.label}: {library} is not installed")
        elif reason := why_not(tried, look(tried.device)):
            skipped(f"{tried.label}: {reason}")
        else:
            yield tried


def _is_final(hosts: Hosts, tried: Cell, *, may_repeat: bool) -> bool:
    """Reports one comparison. Returns false if it must be repeated."""
    before = step_s(tried)
    measured = measure(hosts, tried)
    found = Pair(_step_s(measured), (before, step_s(tried)))
    text = f"{tried.label:<34} {described(measured, tried)}  ratio {found.ratio:.3f}"
    text += f"  (loops differ {found.spread:.1%})"
    if (tried.data, tried.batch_size) == (HOST, BATCH_SIZES[0]) and not tried.options.channels_last:
        pageable = sum(found.plain_s) / 2 / step_s(tried, pinned=False)
        text += f"  from pageable memory the loop has {pageable:.2f} of its speed"
    if found.is_good:
        figure(text)
    elif may_repeat:
        figure(f"{text}  outside: to be repeated")
    else:
        problem(f"{text}  twice outside of {found.bounds[0]:g} to {found.bounds[1]:g}")
    return found.is_good or not may_repeat


def measure(hosts: Hosts, tried: Cell) -> Measurement:
    """The measurement of a cell. Raises CellFailedError."""
    with tempfile.TemporaryDirectory() as folder:  # random images need no files
        outcome = hosts.run(tried, Path(folder))
    if outcome.status != Status.ok or outcome.measurement is None:
        raise CellFailedError(f"{outcome.status}: {outcome.reason}")
    if why := judge(tried, outcome.measurement):
        raise CellFailedError(f"{Status.invalid}: {why}")
    return outcome.measurement


def _step_s(measured: Measurement) -> float:
    return median([block.seconds / block.num_steps for block in measured.blocks])


def described(measured: Measurement, tried: Cell) -> str:
    """The speed, rates and memory of a cell, in one line."""
    step_s = _step_s(measured)
    flops = measured.work.flops if measured.work is not None else None
    texts = [f"{tried.batch_size / step_s:>11,.0f}/s {step_s * 1e3:>9.3f} ms"]
    texts.append(" " * 14 if flops is None else f"{flops / step_s / 1e12:>7.3g} TFLOP/s")
    if measured.peak_device_bytes is not None:
        texts.append(f"{measured.peak_device_bytes / 1e6:>7,.0f} MB")
    if measured.output_error is not None:
        texts.append(f"error {measured.output_error:.1g}")
    if measured.compile_s:
        texts.append(f"compiled in {measured.compile_s:.0f} s")
    return " ".join(texts)


if __name__ == "__main__":
    part = sys.argv[1]
    device = Device(sys.argv[2])
    end = time.monotonic() + float(sys.argv[3])
    parts: dict[str, Callable[[], None]] = {
        "ceilings": lambda: probe(device),
        "keras": lambda: on_keras(device),
        "cells": lambda: run_cells(compared(device), end, LONGEST_OF_NETWORKS_S),
        "graphs": lambda: run_cells(of_graphs(), end),
    }
    parts[part]()
