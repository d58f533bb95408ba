"""Makes many synthetic records of realistic size, of several machines, suites, models and processes."""

import itertools
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from accelbench.schema.cell import STEP_MODES, Cell, Mode, Precision
from accelbench.schema.measurement import Block, SystemSeries
from accelbench.schema.plan_file import PlanFile, WantedCell, write_plan
from accelbench.schema.record import Record
from accelbench.schema.serialize import digest
from bench.rounds import cell

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # folder of the module that makes records
from fakes import make_measurement, make_record  # noqa: E402

MODELS = ("mlp", "cnn", "rnn", "lstm", "autoencoder")
BATCH_SIZES = tuple(2**power for power in range(10))
PRECISIONS = (Precision.fp32, Precision.bf16)
NUM_PROCESSES = 5
NUM_SUITES = 10
NUM_STEPS, NUM_SYSTEM = 400, 40
START = datetime(2026, 1, 1, tzinfo=UTC)
SYSTEM = ("host_memory_mb", "cpu_utilization_percent", "other_cpu_utilization_percent", "cpu_system_percent")


@dataclass
class Dice:
    """The random numbers of records. Long series come from a small pool."""

    generator: random.Random = field(default_factory=lambda: random.Random(0))
    pool: list[dict[str, list[float]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        means = {"latency_s": 2e-3, "launch_s": 1e-3, "data_s": 1e-5}
        for _ in range(20):
            drawn = {name: self.around(mean, mean / 20, NUM_STEPS) for name, mean in means.items()}
            self.pool.append({**drawn, "warmup_s": drawn["latency_s"][:100]})

    def around(self, mean: float, spread: float, num: int) -> list[float]:
        """`num` normally distributed numbers."""
        return [self.generator.gauss(mean, spread) for _ in range(num)]


def fill(top: Path, num_machines: int, num_suites: int = NUM_SUITES, num_processes: int = NUM_PROCESSES) -> int:
    """Writes a folder for each machine below `top`, with a folder for each suite. Returns the number of records."""
    dice, num = Dice(), 0
    for machine, suite in itertools.product(range(num_machines), range(num_suites)):
        folder = top / f"node{machine:02}" / f"suite{suite:02}"
        folder.mkdir(parents=True)
        wanted = []
        for made in records(machine, suite, num_processes, dice):
            _write(made, folder)
            wanted.append(WantedCell(made.cell, made.name, made.label))
        num += len(wanted)
        write_plan(PlanFile(suite=folder.name, title=folder.name, study=None, profile="full", cells=wanted), folder)
    return num


def fill_sides(top: Path, num_cells: int) -> list[Path]:
    """Writes the two folders of a comparison with interleaved rounds, and returns their paths."""
    dice = Dice()
    sides = [top / "a", top / "b"]
    for minute, side in zip((0, 30), sides, strict=True):
        side.mkdir()
        for seed, repeat in itertools.product(range(num_cells), range(NUM_PROCESSES)):
            started = START + timedelta(hours=repeat, minutes=minute, seconds=seed)
            _write(_record(cell("mlp", Mode.infer, 128, seed=seed, repeat=repeat), 0, started, dice), side)
    return sides


def records(machine: int, suite: int, num_processes: int, dice: Dice) -> Iterator[Record]:
    """The records of one suite on one machine."""
    settings = itertools.product(MODELS, STEP_MODES, PRECISIONS, BATCH_SIZES, range(num_processes))
    for at, (model, mode, precision, batch_size, repeat) in enumerate(settings):
        made = cell(model, mode, batch_size, precision=precision, suite=f"suite{suite:02}", repeat=repeat)
        yield _record(made, machine, START + timedelta(days=suite, seconds=3 * at), dice)


def _write(made: Record, folder: Path) -> None:
    text = msgspec.json.format(msgspec.json.encode(made.to_json()))
    # Lists in a record are indented by half as much. So a record is as long as a real one.
    (folder / f"{made.name}.json").write_bytes(text.replace(b"\n      ", b"\n   "))


def _record(made: Cell, machine: int, started: datetime, dice: Dice) -> Record:
    speed = dice.generator.gauss(1, 0.02)
    seconds = [value / speed for value in dice.around(0.1, 0.002, 10)]
    blocks = [Block(num_steps=60, num_samples=60 * made.batch_size, seconds=each) for each in seconds]
    machine_values = {"cpu_name": f"CPU of node {machine}", "num_cores": 2, "num_threads": 2, "memory_gb": 16}
    return make_record(
        made,
        identity=digest([made.id, made.suite, machine]),
        started_at=started.isoformat(timespec="milliseconds"),
        environment={
            "machine": machine_values,
            "versions": dict.fromkeys(("python", "torch", "torchvision", "lightning", "numpy", "timm"), "2.9.0"),
            "variables": {"OMP_NUM_THREADS": "2"},
            "code": digest("code"),
            "git": {"revision": "8d93729", "dirty": False, "branch": "main"},
        },
        measurement=make_measurement(blocks=blocks, steady_boot_s=(501.0, 503.5), **dice.generator.choice(dice.pool)),
        system=SystemSeries(
            started_boot_s=500.0,
            t_s=[0.1 * i for i in range(NUM_SYSTEM)],
            values={name: dice.around(5, 1, NUM_SYSTEM) for name in SYSTEM},
        ),
        sweep_id=f"{started:%Y-%m-%d}_00-00-00-{made.suite}",
    )
