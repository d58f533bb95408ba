"""Records with values such as a sweep on two cores gives."""

from accelbench.schema.cell import Cell, Mode, ModelSpec, Precision, Protocol, Status
from accelbench.schema.measurement import Block, Data, Epoch, Evaluation, Measurement, SystemSeries
from accelbench.schema.record import Record
from fakes import make_cell, make_measurement, make_record

MNIST = Data(name="mnist", digest="6f1c" * 16, source="the original idx files", stand_in=False)
STAND_IN = Data(name="mnist", digest="09ab" * 16, source="a drawn digit for each class", stand_in=True)
ENVIRONMENT = {"machine": {"cpu_name": "AMD EPYC", "num_cores": 2}, "git": {"revision": "8d93729", "dirty": False}}
# A sampler's series at ten samples a second.
SYSTEM = SystemSeries(
    started_boot_s=500.0,
    t_s=[0.1 * i for i in range(10)],
    values={"host_memory_mb": [310.0 + 9 * i for i in range(10)], "cpu_utilization_percent": [None] + [180.0] * 9},
    peak_host_bytes=392_000_000,
)


def cell(model: str = "cnn", **changes) -> Cell:
    usual = {"suite": "mnist_networks", "model": ModelSpec(name=model), "mode": Mode.train}
    return make_cell(**{**usual, "batch_size": 128, "epochs": 5, **changes})


def record(of: Cell | None = None, status: Status = Status.ok, *, number: int = 0, **changes) -> Record:
    """A record that started `number` seconds after the first."""
    usual = {
        "identity": f"{number:08x}" * 8,
        "started_at": f"2026-11-20T09:00:{number:02}+00:00",
        "wall_s": 2.25,
        "environment": ENVIRONMENT,
        "reason": None if status == Status.ok else f"why it is {status}",
        "error": "Traceback ...\nRuntimeError: shapes" if status == Status.failed else None,
        "data": MNIST,
        "measurement": measurement(of or cell()) if status in (Status.ok, Status.invalid) else None,
        "system": SYSTEM if status != Status.skipped else None,
        "sweep_id": "sweep-1",
    }
    return make_record(of or cell(), status, **{**usual, **changes})


def measurement(of: Cell) -> Measurement:
    step_s = of.batch_size / (3000 if of.precision == Precision.bf16 else 1500) * (1 + 0.1 * of.repeat)
    ran = {"precision": of.precision, "loss": 0.21, "latency_s": [step_s] * 80, "data_s": [4e-6] * 80}
    ran["steady_boot_s"] = (500.25, 500.75)
    if of.protocol == Protocol.fit:
        tests = [Evaluation(num_samples=10_000, seconds=3.0, loss=0.4 / i, accuracy=1 - 0.1 / i) for i in range(1, 6)]
        epochs = [Epoch(seconds=40.0, num_samples=60_000, loss=0.9, accuracy=0.9, evaluation=each) for each in tests]
        return make_measurement(**{**ran, "blocks": [], "latency_s": [], "epochs": epochs, "evaluation": tests[-1]})
    num_samples, lengths_s = 9 * of.batch_size, [9 * step_s * (1 + 0.02 * (i % 3)) for i in range(12)]
    blocks = [Block(num_steps=9, num_samples=num_samples, seconds=each) for each in lengths_s]
    return make_measurement(**ran, blocks=blocks)
