import pytest

from accelbench.report import csv_file
from accelbench.schema.vocab import Mode, Scaling

GPU = {"device": "gpu", "batch_size": 64}
TWO = {**GPU, "devices": 2}
WEAK = {"device": "gpu", "scaling": Scaling.weak}
XLA = {"device": "xla_cpu"}


@pytest.mark.parametrize(
    ("cells", "shown"),
    [  # rate, what the cell is, threads of each process
        pytest.param(
            [
                *((1000, GPU, 8), (800, {"device": "gpu", "batch_size": 32}, 8), (1800, TWO, 4)),
                (1560, {**WEAK, "devices": 2, "batch_size": 64}, 4),
                (2400, {**WEAK, "devices": 4, "batch_size": 128}, 2),
            ],
            [0.9, 0.975, 0.75],
            id="with the same cell on one device",
        ),
        pytest.param(
            [(1000, {}, 2), (600, {"threads": 1}, 1), (900, {"devices": 2}, 1)],
            [0.75],
            id="parts of a CPU with one process of as many threads",
        ),
        pytest.param(
            [(1000, {"device": "tpu"}, None), (3600, {"device": "tpu", "devices": 4, "xla_processes": True}, None)],
            [0.9],
            id="XLA's devices with a process each with one",
        ),
        pytest.param([(1000, XLA, 2), (900, {**XLA, "devices": 2}, 2)], [], id="devices of XLA share all cores"),
        *(
            pytest.param([(1000, {**GPU, **other}, 8), (1800, TWO, 4)], [], id=f"cells differ in {next(iter(other))}")
            for other in ({"batch_size": 32}, {"seed": 1}, {"precision": "bf16"}, {"mode": Mode.train})
        ),
    ],
)
def test_cells_on_several_devices_are_compared(read, maker, cells, shown):
    made = [(maker.cell(**{"mode": Mode.infer, **settings}), rate, threads) for rate, settings, threads in cells]
    sweep = read([maker.ok(cell, rate, threads=threads) for cell, rate, threads in made])
    found = [row[csv_file.COLUMN] for row in csv_file.rows([sweep])]
    assert [efficiency for efficiency in found if efficiency is not None] == pytest.approx(shown)
