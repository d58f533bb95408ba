"""Study 000's raw data, with a row for each run. The study's published numbers are computed from it."""

import csv
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from accelbench.schema.cell import Device, Precision

STUDY = "000"
I7, EPYC, A100, TPU_V2 = "Core i7-8750H", "EPYC 7763", "A100-PCIE-40GB", "TPU v2"
DEVICES = {I7: Device.cpu, EPYC: Device.cpu, A100: Device.gpu, TPU_V2: Device.tpu}
PRECISIONS = {
    "float16": Precision.fp16,
    "bfloat16": Precision.bf16,
    "float32": Precision.fp32,
    "float64": Precision.fp64,
}
# The study's text states 32 steps on the TPU. Its comparison uses the runs with 10 (plot/plottinglib/prints.py).
STEPS = {I7: 512, EPYC: 512, A100: 512, TPU_V2: 10}
READ_ONCE = ("utilization", "power", "temperature")
MB_PER_MIB = 1.048576  # the study's MB are 1024^2 bytes
MODELS = {"xception": "legacy_xception"}  # the present name in timm


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run, in the order in which the study's code ran them.

    Attributes:
        precision: the study's word for it; its float32 on the GPU is TF32.
        launch_ms: the study's "inference time" per image; nothing waited for the device.
        copying_ms: the study's "communication" per image, in both directions; it includes the wait for the device.
        total_ms: sum of `launch_ms` and `copying_ms`.
        utilization: in percent. Utilization, power (W) and temperature (°C) were read once after the run; for three
            GPUs they are means.
        peak_memory: MiB, the most that the process had held until then; only on the GPU.
    """

    machine: str
    model: str
    precision: str
    batch_size: int
    steps: int
    launch_ms: float
    copying_ms: float
    total_ms: float
    utilization: float | None
    power: float | None
    temperature: float | None
    peak_memory: float | None


@cache
def runs() -> tuple[Run, ...]:
    """All runs in the study's repository."""
    kinds = {"machine": str, "model": str, "precision": str, "batch_size": int, "steps": int}
    with (Path(__file__).parent / "raw_000.csv").open(encoding="utf-8") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row |= {name: kinds.get(name, float)(text) if text else None for name, text in row.items()}
    return tuple(Run(**row) for row in rows)


def compared(machine: str, precision: str | None = None, models: Collection[str] = ()) -> list[Run]:
    """The machine's runs with the number of steps that the study compares, for one precision or some networks."""
    found = [run for run in runs() if run.machine == machine and run.steps == STEPS[machine]]
    found = [run for run in found if precision in (None, run.precision)]
    return [run for run in found if not models or run.model in models]


def times_as_fast(fast: Sequence[Run], slow: Sequence[Run], time: str = "total_ms") -> float:
    """The mean time per image of `slow` over the mean time per image of `fast`."""
    first, second = (fmean(getattr(run, time) for run in each) for each in (fast, slow))
    return second / first


def set_a_peak() -> list[Run]:
    """The runs that raised the peak of memory. The peak of any other run is from an earlier run of its process."""
    found: list[Run] = []
    for run in runs():
        if run.peak_memory is not None and (not found or run.peak_memory > (found[-1].peak_memory or 0.0)):
            found.append(run)
    return found


def numbers() -> Iterator[dict[str, Any]]:
    """The numbers of the compared runs, as rows of published.csv. A value has four digits."""
    own_peak = set_a_peak()
    for run in (run for machine in DEVICES for run in compared(machine)):
        device = DEVICES[run.machine]
        precision = PRECISIONS[run.precision]
        values = {"time_per_image": (run.total_ms, "ms"), "utilization": (run.utilization, "%")}
        values |= {"power": (run.power, "W"), "temperature": (run.temperature, "°C")}
        source = f"Madhan063/Benchmarking-CPU-GPU-and-TPU, raw data: {run.machine}"
        if device != Device.cpu:
            values["communication_share"] = (100 * run.copying_ms / run.total_ms, "%")
            if precision == Precision.fp32:
                source += ', "float32"'
        if device == Device.gpu and precision == Precision.fp32:
            precision = Precision.tf32
        if run in own_peak:
            values["peak_memory"] = (MB_PER_MIB * (run.peak_memory or 0.0), "MB")
        settings = {"study": STUDY, "device": device.value, "model": MODELS.get(run.model, run.model)}
        settings |= {"precision": precision.value, "batch_size": str(run.batch_size), "assumed": ""}
        for metric, (value, unit) in values.items():
            if value is not None:
                of_three = ", mean of 3 GPUs" if device == Device.gpu and metric in READ_ONCE else ""
                number = {"metric": metric, "value": f"{value:.4g}", "unit": unit, "source": source + of_three}
                yield settings | number
