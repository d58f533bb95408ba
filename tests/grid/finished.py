"""Records of cells that took a given time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from accelbench.grid.estimate import expected_s
from accelbench.schema.measurement import Block, Epoch, SystemSeries
from accelbench.schema.record import Record
from accelbench.schema.vocab import Protocol, Status
from fakes import make_cell, make_measurement

MACHINE = {"cpu_name": "a CPU", "num_threads": 2}
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
OVERHEAD_S = 0.5  # of a cell, besides its steps
NUM_SAMPLES = (100, 50)  # of `make_measurement`


def finished(cell=None, step_s=0.001, *, at_s=0.0, waited_s=0.0, slower=1.0, **changes):
    """The record of a cell that was asked for at `at_s` after noon and waited for its host.

    `slower`: how many times longer all of it took.
    """
    cell = cell or make_cell()
    took_s = slower * (expected_s(cell, step_s, NUM_SAMPLES) + OVERHEAD_S)
    if cell.protocol == Protocol.fit:
        epochs = [Epoch(seconds=step_s * 100 / cell.batch_size, num_samples=100)] * cell.epochs
        measured = make_measurement(blocks=[], latency_s=[], epochs=epochs)
    else:
        blocks = [Block(num_steps=1, num_samples=cell.batch_size, seconds=step_s)]
        measured = make_measurement(blocks=blocks, latency_s=[])
    values = {
        "cell": cell,
        "identity": "0" * 64,
        "status": Status.ok,
        "started_at": (NOON + timedelta(seconds=at_s)).isoformat(timespec="milliseconds"),
        "wall_s": waited_s + took_s,
        "environment": {"machine": MACHINE},
        "measurement": measured,
        "system": SystemSeries(started_boot_s=60.0 + at_s + waited_s, t_s=[0.0, took_s]),
    }
    return Record(**{**values, **changes})


def of_model(name, cell=None):
    cell = cell or make_cell()
    return replace(cell, model=replace(cell.model, name=name))
