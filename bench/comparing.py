"""How long comparing and summarising 10,000 records takes: 1,000 cells with 5 processes on each side.

The records are synthetic, as long as those of the `window` protocol with its default bounds.
"""

import dataclasses
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from accelbench.judging.row import summarise
from accelbench.project import RECORDS
from accelbench.schema.cell import Cell
from accelbench.schema.record import Record, read_all
from accelbench.schema.vocab import Device, Engine, Mode, Precision, Protocol, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from bench.synthetic import NUM_STEPS, measurement

NUM_CELLS = 1000
NUM_PROCESSES = 5
DICE = random.Random()
COMPARE_TARGET_S, READ_TARGET_S = 5.0, 3.0


def main() -> None:
    """Prints the seconds of both."""
    with tempfile.TemporaryDirectory() as scratch:
        sides = [Path(scratch, name) for name in ("a", "b")]
        for minute, side in zip((0, 30), sides, strict=True):
            fill(side, minute)
        num = sum(1 for side in sides for _ in side.glob(RECORDS))
        start = time.perf_counter()
        command = [sys.executable, "-m", "accelbench.cli", "compare", *map(str, sides)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        compared_s = time.perf_counter() - start
        start = time.perf_counter()
        records = read_all([path for side in sides for path in side.glob(RECORDS)])
        for _ in records.each(summarise):
            pass
        summarised_s = time.perf_counter() - start
        start = time.perf_counter()
        for record in records:
            summarise(record)
        alone_s = time.perf_counter() - start
    print(f"`accelbench compare` of {num:,} records: {compared_s:.1f} s (target: at most {COMPARE_TARGET_S:g} s)")
    print(f"  {next(line for line in done.stdout.splitlines() if ' same' in line and line[0].isdigit())}")
    print(f"reading and summarising them: {summarised_s:.1f} s (target: at most {READ_TARGET_S:g} s)")
    print(f"  in one process, as for a report, which needs whole records: {alone_s:.1f} s")


def fill(folder: Path, minute: int, num_cells: int = NUM_CELLS) -> None:
    """Writes the records of one side; each round of them began `minute` minutes past the hour."""
    folder.mkdir()
    for seed in range(num_cells):
        for repeat in range(NUM_PROCESSES):
            made = record(seed, f"{repeat:02}:{minute + seed // 60:02}:{seed % 60:02}", repeat, DICE.gauss(1, 0.01))
            (folder / f"{made.name}.json").write_text(json.dumps(made.to_json(), indent=1))


def record(seed: int, time_of_day: str, repeat: int, speed: float) -> Record:
    """A record of one process that is `speed` times as fast as usual."""
    cell = Cell(
        suite="bench",
        engine=Engine.lightning,
        device=Device.cpu,
        model=ModelSpec(name="mlp"),
        data=DataSpec(name="mnist"),
        mode=Mode.infer,
        precision=Precision.fp32,
        batch_size=128,
        protocol=Protocol.window,
        epochs=1,
        seed=seed,
        repeat=repeat,
    )
    steps = [DICE.gauss(2e-3, 1e-4) for _ in range(NUM_STEPS)]
    measured = measurement(cell.batch_size, DICE, speed, steps, steps, steps)
    environment = {"machine": {"cpu_name": "a CPU"}, "versions": {"torch": "2.9.0"}, "code": "c0de"}
    at = f"2026-01-01T{time_of_day}.000+00:00"
    made = Record(cell=cell, identity="0" * 64, status=Status.ok, started_at=at, wall_s=2.5, environment=environment)
    return dataclasses.replace(made, measurement=measured)


if __name__ == "__main__":
    main()
