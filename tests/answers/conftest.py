from accelbench.answers.cells import Process, cells_of
from accelbench.answers.jobs import jobs
from accelbench.schema.cell import Status
from accelbench.schema.measurement import Block
from fakes import make_cell, make_measurement, make_record
from report.conftest import Maker

maker = Maker()


def process(rate=100.0, at=0, status=Status.ok, environment=None, data=None, **changes):
    """A process that began `at` minutes after midnight; with the rate of its three blocks, or of each."""
    rates = rate if isinstance(rate, list) else [rate] * 3
    blocks = [Block(num_steps=1, num_samples=1, seconds=1 / each) for each in rates]
    record = make_record(
        make_cell(**changes),
        status=status,
        started_at=f"2026-11-20T{at // 60:02}:{at % 60:02}:00",
        environment=environment or {},
        data=data,
        measurement=make_measurement(blocks=blocks) if status in (Status.ok, Status.invalid) else None,
    )
    return Process.of(record)


def cells(records):
    return cells_of(map(Process.of, records))


def answered(records):
    return jobs(cells(records))
