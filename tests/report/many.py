"""A report's worth of synthetic cells: as many as the full profiles of several suites have."""

from dataclasses import replace
from pathlib import Path

from accelbench.schema.ceilings import Ceilings
from accelbench.schema.cell import KerasSettings
from accelbench.schema.measurement import Breakdown, Work
from accelbench.schema.vocab import Engine, KerasBackend, Library, Mode, Pipeline, Precision, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from report.conftest import ENVIRONMENT, Maker

NETWORKS = [
    *("efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "mobilenetv2_100", "nasnetalarge"),
    *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg11", "vgg13", "vgg16", "vgg19"),
]
MNIST = ["mlp", "cnn", "rnn", "lstm", "autoencoder"]
SPEEDS = {"cpu": 1, "gpu": 80, "tpu": None, "xla_cpu": 0.7}  # None: not there
CEILINGS = Ceilings(
    **{
        "device": "cpu",
        "device_name": "Example CPU",
        "threads": 2,
        "how": dict.fromkeys(("fp32", "bf16", "fp16", "tf32", "fp64"), "matmul"),
        "launch_s": 1e-6,
        "seconds": 30.0,
    },
    **{"flops_per_s": {"fp32": 5e11, "bf16": 1e12, "fp16": 1e12, "tf32": 5e11, "fp64": 2e11}},
    **{"memory_bytes_per_s": 2e10, "host_to_device_bytes_per_s": None, "device_to_host_bytes_per_s": None},
    **{"measured_at": "2026-11-20T18:00:00+00:00"},
)


def finished(maker: Maker, cell, rate: float):
    phases = {"data_wait": 0.1, "forward": 0.4, "backward": 0.3, "optimizer": 0.1, "framework": 0.1}
    step = cell.batch_size / rate
    return maker.ok(
        cell,
        rate,
        breakdown=Breakdown(
            phases_s={phase: [step * share] * 8 for phase, share in phases.items()}, undisturbed_s=[step] * 8
        ),
        work=Work(flops=10**9 * cell.batch_size, bytes=10**8 * cell.batch_size, num_operators=120),
        launch_s=[step / 10] * 700,
        first_step_s=3 * step,
        latency_s=[step * (1 + i / 1000) for i in range(700)],
    )


def write(results: Path, maker: Maker) -> int:
    """Writes suites with 2,000 cells in all below `results` and returns that number."""
    suites = {"imagenet_inference": [], "mnist_networks": [], "engines": []}
    images = {
        "data": DataSpec(name="random", pipeline=Pipeline.host),
        "mode": Mode.infer,
        "suite": "imagenet_inference",
    }
    for i, name in enumerate(NETWORKS):
        model = ModelSpec(name=name, library=Library.timm, input_shape=(3, 224, 224))
        for device in ("cpu", "gpu", "tpu"):
            for precision in (Precision.fp16, Precision.bf16, Precision.fp32, Precision.tf32, Precision.fp64):
                for batch_size in (1, 4, 16, 32, 64, 128):
                    cell = maker.cell(device=device, precision=precision, batch_size=batch_size, **images)
                    cell = replace(cell, model=model)
                    suites["imagenet_inference"].append((cell, 100.0 / (i + 1)))
    for i, name in enumerate(MNIST):
        for mode in Mode:
            for device in SPEEDS:
                for precision in (Precision.fp32, Precision.bf16, Precision.bf16_mixed):
                    for batch_size in (32, 128, 512, 2048, 8192):
                        changes = {"mode": mode, "batch_size": batch_size, "suite": "mnist_networks"}
                        suites["mnist_networks"].append(
                            (maker.cell(name, device, precision, **changes), 9000 / (i + 1))
                        )
    keras = [KerasSettings(), KerasSettings(jit_compile=True), KerasSettings(backend=KerasBackend.jax)]
    for batch_size in (2**power for power in range(13)):
        for settings in [None, *keras][: 4 if batch_size < 4096 else 2]:
            cell = maker.cell(suite="engines", batch_size=batch_size)
            if settings:
                cell = replace(cell, engine=Engine.keras, keras=settings)
            suites["engines"].append((cell, 4000 * (0.8 if settings else 1)))
    for cells, study in zip(suites.values(), ("000", "001", None), strict=True):
        maker.suite(results, [_record(maker, cell, rate) for cell, rate in cells], study=study)
    return sum(map(len, suites.values()))


def _record(maker: Maker, cell, rate: float):
    speed = SPEEDS[cell.device]
    environment = {**ENVIRONMENT, "ceilings": {**CEILINGS.to_json(), "device": cell.device.value}}
    if speed is None:
        return maker.record(cell, Status.skipped, reason="no TPU chip on the PCI bus", environment=environment)
    ease = {"fp32": 1.0, "bf16": 1.6, "fp16": 1.5, "tf32": 1.1, "fp64": 0.4}.get(cell.precision, 1.3)
    done = finished(maker, cell, rate * speed * ease * cell.batch_size**0.3)
    return replace(done, environment=environment)
