"""A report's worth of synthetic cells: as many as the full profiles of several suites have."""

import itertools
from dataclasses import replace
from pathlib import Path

from accelbench.schema.measurement import Breakdown, Work
from accelbench.schema.vocab import Library, Mode, Pipeline, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_ceilings
from report.conftest import ENVIRONMENT, Maker

NETWORKS = [f"{family}{size}" for family in ("efficientnet_b", "resnet", "vgg", "mobilenet") for size in range(5)]
SPEEDS = {"cpu": 1, "gpu": 80, "tpu": None, "xla_cpu": 0.7}  # None: not there
EASE = {"fp32": 1.0, "bf16": 1.6, "fp16": 1.5, "tf32": 1.1, "fp64": 0.4}
CEILINGS = make_ceilings(flops_per_s={word: 5e11 * ease for word, ease in EASE.items()}, how=dict.fromkeys(EASE, "a"))


def finished(maker: Maker, cell, rate: float):
    phases = {"data_wait": 0.1, "forward": 0.4, "backward": 0.3, "optimizer": 0.1, "framework": 0.1}
    step = cell.batch_size / rate
    times = {phase: [step * share] * 8 for phase, share in phases.items()}
    return maker.ok(
        cell,
        rate,
        breakdown=Breakdown(phases_s=times, undisturbed_s=[step] * 8),
        work=Work(flops=10**9 * cell.batch_size, bytes=10**8 * cell.batch_size, num_operators=120),
        launch_s=[step / 10] * 700,
        first_step_s=3 * step,
    )


def write(results: Path, maker: Maker) -> int:
    """Writes a suite of 2,000 cells below `results` and returns that number."""
    records = []
    data = DataSpec(name="random", pipeline=Pipeline.host)
    axes = itertools.product(enumerate(NETWORKS, 1), SPEEDS, EASE, (1, 4, 16, 32, 128))
    for (number, name), device, precision, size in axes:
        model = ModelSpec(name=name, library=Library.timm, input_shape=(3, 224, 224))
        cell = maker.cell(device=device, precision=precision, batch_size=size, data=data, mode=Mode.infer)
        cell = replace(cell, model=model)
        if SPEEDS[device] is None:
            made = maker.record(cell, Status.skipped, reason="no TPU chip on the PCI bus")
        else:
            made = finished(maker, cell, 100.0 / number * SPEEDS[device] * EASE[precision] * size**0.3)
        ceilings = {**CEILINGS.to_json(), "device": device}
        records.append(replace(made, environment={**ENVIRONMENT, "ceilings": ceilings}))
    maker.suite(results, records, study="000")
    return len(records)
