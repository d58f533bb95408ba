"""Records with values such as a sweep on two cores gives."""

import random
from datetime import UTC, datetime, timedelta

from accelbench.answers.cells import Process
from accelbench.schema.cell import Cell, ModelSpec, Window
from accelbench.schema.measurement import Block, Data, Epoch, Evaluation, Measurement, SystemSeries
from accelbench.schema.record import Record
from accelbench.schema.vocab import Mode, Precision, Protocol, Status
from fakes import make_cell, make_measurement

MNIST = Data(name="mnist", digest="6f1c" * 16, source="the original idx files", stand_in=False)
STAND_IN = Data(name="mnist", digest="09ab" * 16, source="a drawn digit for each class", stand_in=True)
ENVIRONMENT = {
    "machine": {"cpu_name": "AMD EPYC", "num_cores": 2},
    "git": {"revision": "8d93729", "dirty": False, "branch": "main"},
}
SAMPLES_PER_S = {"mlp": 21_000.0, "cnn": 1_450.0, "lstm": 610.0, "resnet18": 58.0}
START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
REASONS = {
    Status.skipped: "no NVIDIA GPU here",
    Status.failed: "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x784 and 28x512)",
    Status.oom: "out of memory: killed by the kernel at 15.2 GB",
    Status.timeout: "no answer within 600 s",
    Status.killed: "killed by signal 15 (SIGTERM)",
    Status.invalid: "asked for fp16_mixed, bf16_mixed ran",
}


def cell(model: str = "cnn", **changes) -> Cell:
    usual = {"suite": "mnist_networks", "model": ModelSpec(name=model), "mode": Mode.train, "window": Window()}
    return make_cell(**{**usual, "batch_size": 128, "epochs": 5, **changes})


def record(of: Cell | None = None, status: Status = Status.ok, *, number: int = 0, **changes) -> Record:
    """A record that started `number` times three seconds after the first."""
    of = of or cell()
    usual = {
        "identity": f"{number:08x}" * 8,
        "started_at": (START + timedelta(seconds=3 * number)).isoformat(),
        "wall_s": 2.25,
        "environment": ENVIRONMENT,
        "reason": REASONS.get(status),
        "error": "Traceback ...\nRuntimeError: shapes" if status == Status.failed else None,
        "data": MNIST,
        "measurement": measurement(of) if status in (Status.ok, Status.invalid) else None,
        "system": system_series() if status != Status.skipped else None,
        "sweep_id": "sweep-1",
    }
    return Record(cell=of, status=status, **{**usual, **changes})


def measurement(of: Cell) -> Measurement:
    dice = random.Random(of.id)
    speed = SAMPLES_PER_S.get(of.model.name, 100.0) * (3.1 if of.mode == Mode.infer else 1)
    speed *= (of.batch_size / 128) ** 0.3 * (1.7 if of.precision == Precision.bf16 else 1.0)
    step_s = of.batch_size / speed
    blocks = [
        Block(num_steps=9, num_samples=9 * of.batch_size, seconds=9 * step_s * dice.gauss(1, 0.02)) for _ in "x" * 12
    ]
    tests = [Evaluation(num_samples=10_000, seconds=3.0, loss=0.4 / i, accuracy=1 - 0.1 / i) for i in range(1, 99)]
    trained = {"seconds": 60_000 / speed, "num_samples": 60_000}
    epochs = [
        Epoch(**trained, loss=0.9 / i, accuracy=1 - 0.3 / i, evaluation=tests[i - 1]) for i in range(1, of.epochs + 1)
    ]
    ran = {"device": of.device, "device_name": "AMD EPYC, 2 threads", "precision": of.precision, "build_s": 0.04}
    ran |= {"num_params": 112_074, "num_train_samples": 60_000, "num_test_samples": 10_000, "first_step_s": 0.2}
    ran |= {"warmup_s": [step_s] * 5, "steady_boot_s": (500.25, 500.75)}
    if of.protocol == Protocol.fit:
        tested = Evaluation(num_samples=10_000, seconds=3.0, loss=0.04, accuracy=0.9861)
        seen = {"blocks": [], "latency_s": [], "epochs": epochs, "evaluation": tested}
    else:
        steps_s = [step_s * dice.gauss(1.05, 0.03) for _ in range(80)]
        seen = {"blocks": blocks, "latency_s": steps_s, "launch_s": [0.6 * step_s] * 80, "data_s": [4e-6] * 80}
    warnings = ["only 80 latency samples: the 99th percentile is withheld"]
    return make_measurement(**ran, **seen, loss=0.21 if of.mode == Mode.train else None, warnings=warnings)


def system_series(num_samples: int = 10) -> SystemSeries:
    """A sampler's series at ten samples a second."""
    return SystemSeries(
        started_boot_s=500.0,
        t_s=[0.1 * i for i in range(num_samples)],
        values={
            "host_memory_mb": [310.0 + 9 * min(i, 6) for i in range(num_samples)],
            "cpu_utilization_percent": [None] + [180.0 + i % 7 for i in range(1, num_samples)],
        },
        peak_host_bytes=392_000_000,
    )


def processes(*records):
    """The processes of records, as a delivery takes them."""
    return [Process.of(each) for each in records]
