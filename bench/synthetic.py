"""Many synthetic records, of the size that real ones have: several machines, suites, models and processes."""

import itertools
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from accelbench.schema.cell import Cell
from accelbench.schema.conditions import Data, SystemSeries
from accelbench.schema.measurement import Block, Measurement
from accelbench.schema.plan_file import PlanFile, WantedCell, write_plan
from accelbench.schema.record import Record
from accelbench.schema.serialize import digest
from accelbench.schema.vocab import Mode, Precision, Status
from bench.rounds import cell

MODELS = ("mlp", "cnn", "rnn", "lstm", "autoencoder")
BATCH_SIZES = tuple(2**power for power in range(10))
PRECISIONS = (Precision.fp32, Precision.bf16)
NUM_PROCESSES = 5
NUM_SUITES = 10
NUM_STEPS, NUM_SYSTEM = 400, 40
START = datetime(2026, 1, 1, tzinfo=UTC)
Pool = list[tuple[list[float], ...]]  # seconds of latency, launch and data


def fill(top: Path, num_machines: int, num_suites: int = NUM_SUITES, num_processes: int = NUM_PROCESSES) -> int:
    """Writes a folder for each machine below `top`, with a folder for each suite; returns the number of records."""
    dice = random.Random(0)
    pool = [_samples(dice) for _ in range(20)]
    num = 0
    for machine in range(num_machines):
        for suite in range(num_suites):
            folder = top / f"node{machine:02}" / f"suite{suite:02}"
            folder.mkdir(parents=True)
            wanted = []
            for made in records(machine, suite, num_processes, dice, pool):
                _write(made, folder)
                wanted.append(WantedCell(made.cell, made.name))
            num += len(wanted)
            plan = PlanFile(suite=folder.name, title=folder.name, study=None, profile="full", cells=wanted)
            write_plan(plan, folder)
    return num


def fill_sides(top: Path, num_cells: int) -> list[Path]:
    """Writes the folders of two sides of a comparison, whose rounds are interleaved; returns them."""
    dice = random.Random(0)
    pool = [_samples(dice) for _ in range(20)]
    sides = [top / name for name in ("a", "b")]
    for minute, side in zip((0, 30), sides, strict=True):
        side.mkdir()
        for seed in range(num_cells):
            for repeat in range(NUM_PROCESSES):
                started = START + timedelta(hours=repeat, minutes=minute, seconds=seed)
                made = _record(cell("mlp", Mode.infer, 128, seed=seed, repeat=repeat), 0, started, dice, pool)
                _write(made, side)
    return sides


def records(machine: int, suite: int, num_processes: int, dice: random.Random, pool: Pool) -> Iterator[Record]:
    """The records of one suite on one machine."""
    settings = itertools.product(MODELS, Mode, PRECISIONS, BATCH_SIZES, range(num_processes))
    for at, (model, mode, precision, batch_size, repeat) in enumerate(settings):
        made = cell(model, mode, batch_size, precision=precision, suite=f"suite{suite:02}", repeat=repeat)
        yield _record(made, machine, START + timedelta(days=suite, seconds=3 * at), dice, pool)


def _write(made: Record, folder: Path) -> None:
    text = orjson.dumps(made.to_json(), option=orjson.OPT_INDENT_2)
    # A record's lists are indented by half of that: no longer than they really are.
    (folder / f"{made.name}.json").write_bytes(text.replace(b"\n      ", b"\n   "))


def _record(made: Cell, machine: int, started: datetime, dice: random.Random, pool: Pool) -> Record:
    return Record(
        cell=made,
        identity=digest([made.id, made.suite, machine]),
        status=Status.ok,
        started_at=started.isoformat(timespec="milliseconds"),
        wall_s=2.5,
        environment=_environment(machine),
        data=Data(name="mnist", digest="6f1c" * 16, source="the original idx files", stand_in=False),
        measurement=measurement(made.batch_size, dice, dice.gauss(1, 0.02), *dice.choice(pool)),
        system=_system(dice),
        sweep_id=f"{started:%Y-%m-%d}_00-00-00-{made.suite}",
    )


def _samples(dice: random.Random) -> tuple[list[float], ...]:
    return tuple([dice.gauss(mean, mean / 20) for _ in range(NUM_STEPS)] for mean in (2e-3, 1e-3, 1e-5))


def measurement(
    batch_size: int,
    dice: random.Random,
    speed: float,
    latency_s: list[float],
    launch_s: list[float],
    data_s: list[float],
) -> Measurement:
    """A measurement of the `window` protocol, of a process that is `speed` times as fast as usual."""
    return Measurement(
        device="cpu",
        device_name="a CPU, 2 threads",
        precision="fp32",
        num_devices=1,
        threads=2,
        num_params=100_000,
        num_train_samples=60_000,
        num_test_samples=10_000,
        build_s=0.1,
        first_step_s=0.2,
        warmup_s=latency_s[:100],
        blocks=[
            Block(num_steps=60, num_samples=60 * batch_size, seconds=dice.gauss(0.1, 0.002) / speed) for _ in range(10)
        ],
        latency_s=latency_s,
        launch_s=launch_s,
        data_s=data_s,
        steady_boot_s=(501.0, 503.5),
        peak_host_bytes=392_000_000,
    )


def _system(dice: random.Random) -> SystemSeries:
    names = ("host_memory_mb", "cpu_utilization_percent", "other_cpu_utilization_percent", "cpu_system_percent")
    return SystemSeries(
        started_boot_s=500.0,
        t_s=[0.1 * i for i in range(NUM_SYSTEM)],
        values={name: [dice.gauss(5, 1) for _ in range(NUM_SYSTEM)] for name in names},
        peak_host_bytes=392_000_000,
    )


def _environment(machine: int) -> dict[str, object]:
    return {
        "machine": {"cpu_name": f"CPU of node {machine}", "num_cores": 2, "num_threads": 2, "memory_gb": 16},
        "versions": {name: "2.9.0" for name in ("python", "torch", "torchvision", "lightning", "numpy", "timm")},
        "variables": {"OMP_NUM_THREADS": "2"},
        "code": digest("code"),
        "git": {"revision": "8d93729", "dirty": False, "branch": "main"},
    }
