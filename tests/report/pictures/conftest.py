import pytest

from accelbench.report import read
from accelbench.schema.ceilings import Ceilings
from accelbench.schema.measurement import Breakdown, Work
from accelbench.schema.vocab import Mode

CEILINGS = Ceilings(
    device="cpu",
    device_name="a CPU",
    threads=2,
    flops_per_s={"fp32": 1e11, "bf16": 4e11},
    how={"fp32": "matmul", "bf16": "matmul"},
    memory_bytes_per_s=1e10,
    host_to_device_bytes_per_s=None,
    device_to_host_bytes_per_s=None,
    launch_s=1e-6,
    seconds=1.0,
    measured_at="2026-11-20T09:00:00.000+00:00",
)
ENVIRONMENT = {"ceilings": CEILINGS.to_json()}
PHASES = {"data_wait": [1e-3] * 4, "forward": [6e-3] * 4, "backward": [2e-3] * 4, "framework": [1e-3] * 4}


def working(maker, model, precision="fp32", mode=Mode.infer, **changes):
    cell = maker.cell(model, precision=precision, mode=mode)
    changes = {
        "work": Work(flops=128 * 10**8, bytes=128 * 10**6, num_operators=9),
        "breakdown": Breakdown(phases_s=PHASES, undisturbed_s=[9.9e-3] * 4),
        **changes,
    }
    made = maker.ok(cell, 500.0, **changes)
    return made.__class__(**{**made.__dict__, "environment": {**made.environment, **ENVIRONMENT}})


@pytest.fixture
def cells(tmp_path, maker):
    """Three cells with a breakdown and counted operations, and one with neither."""
    records = [
        working(maker, "mlp"),
        working(maker, "mlp", "bf16"),
        working(maker, "cnn", mode=Mode.train),
        working(maker, "rnn", work=Work(uncounted=["aten.fft"]), breakdown=None),
    ]
    return read.read(maker.suite(tmp_path, records)).cells
