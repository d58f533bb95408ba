"""Records with values such as a sweep on two cores gives."""

from accelbench.schema.cell import Precision, Protocol, Status
from accelbench.schema.measurement import Epoch, Evaluation, SystemSeries
from fakes import make_record
from report.conftest import MNIST, Maker

MAKER = Maker()
ENVIRONMENT = {"machine": {"cpu_name": "AMD EPYC", "num_cores": 2}, "git": {"revision": "8d93729", "dirty": False}}
# A sampler's series at ten samples a second.
SYSTEM = SystemSeries(
    started_boot_s=500.0,
    t_s=[0.1 * i for i in range(10)],
    values={"host_memory_mb": [310.0 + 9 * i for i in range(10)], "cpu_utilization_percent": [None] + [180.0] * 9},
    peak_host_bytes=392_000_000,
)


def cell(model="cnn", **changes):
    return MAKER.cell(model, **{"suite": "mnist_networks", **changes})


def record(of=None, status=Status.ok, *, number=0, **changes):
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


def measurement(of):
    rate = (3000 if of.precision == Precision.bf16 else 1500) / (1 + 0.1 * of.repeat)
    ran = {"loss": 0.21, "latency_s": [of.batch_size / rate] * 80, "steady_boot_s": (500.25, 500.75)}
    if of.protocol == Protocol.fit:
        tests = [Evaluation(num_samples=10_000, seconds=3.0, loss=0.4 / i, accuracy=1 - 0.1 / i) for i in range(1, 6)]
        ran["epochs"] = [Epoch(seconds=40.0, num_samples=60_000, loss=0.9, accuracy=0.9, evaluation=i) for i in tests]
        ran["latency_s"] = []
    return MAKER.ok(of, rate, **ran).measurement
