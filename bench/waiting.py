"""What a user waits for: fresh processes, medians of `NUM_ROUNDS`, each beside its goal.

The framework's files should be in the page cache; the first round of each figure is left out for that reason.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from accelbench.project import RECORDS
from accelbench.schema.record import Record, read
from accelbench.schema.vocab import Mode
from accelbench.stats.order_statistics import median
from bench.overhead import runs_folder, windows_s
from bench.synthetic import NUM_PROCESSES, fill_sides

NUM_ROUNDS = 5
NUM_RECORDS = 300
NUM_FURTHER = 4  # further cells of each mode in a sweep
CARD = "  record "  # the line that ends the card
CELL = ["model=mlp", "mode=infer"]
SWEEP = ["-m", "model=mlp", "model.args.widths=[64,64,64,64]", "mode=infer,train"]
SWEEP += [f"seed={','.join(map(str, range(NUM_FURTHER + 1)))}", "window.measure_s=0.5", "window.latency_s=0.2"]


def main() -> None:
    """Prints a line for each figure."""
    print(f"{'':<58} {'goal':>6} {'median':>7}   least to most of {NUM_ROUNDS}")
    _one_cell()
    _further_cells()
    for words in (["--help"], ["doctr"]):
        _show(f"accelbench {words[0]}", 0.3, _rounds(lambda words=words: _seconds(words)))
    _show("plan of 166 cells", 2.0, _rounds(lambda: _seconds(["plan", "suite=mnist_networks", "profile=quick"])))
    _show("plan of 2,484 cells", 5.0, _rounds(lambda: _seconds(["plan", "suite=imagenet_inference", "profile=full"])))
    with tempfile.TemporaryDirectory() as scratch:
        sides = fill_sides(Path(scratch), NUM_RECORDS // NUM_PROCESSES)
        _show(f"best of {NUM_RECORDS} records", 1.5, _rounds(lambda: _seconds(["best", str(sides[0])])))
        compare = ["compare", *map(str, sides)]
        _show(f"compare of {NUM_RECORDS} records with as many", 1.5, _rounds(lambda: _seconds(compare)))


def _one_cell() -> None:
    """From Enter to the card, in turns with the framework's import alone, which the goal allows."""
    beyond, imports, cards, windows = [], [], [], []
    with _folder() as folder:
        for number in range(NUM_ROUNDS + 1):
            import_s = _seconds_of([sys.executable, "-c", "import pytorch_lightning"])
            card_s = _seconds_to_card([*CELL, f"seed={number}", f"out={folder}"])
            (record,) = [each for each in _records(folder) if each.cell.seed == number]
            if number:  # the first round may have to probe the device
                imports.append(import_s)
                cards.append(card_s)
                windows.append(_windows_s(record))
                beyond.append(card_s - import_s - windows[-1])
    _show("one cell, Enter to card, beyond the import and its windows", 1.5, beyond)
    for name, values in (("Enter to card", cards), ("import pytorch_lightning", imports), ("its windows", windows)):
        _show(f"  {name}", None, values)


def _further_cells() -> None:
    """From the start of one cell to that of the next, without its windows: the median of a sweep's cells."""
    by_mode: dict[Mode, list[float]] = {Mode.infer: [], Mode.train: []}
    for _ in range(NUM_ROUNDS):
        with _folder() as folder:
            _seconds([*SWEEP, f"out={folder}"])
            records = sorted(_records(folder), key=lambda record: record.started_at)
        began = [datetime.fromisoformat(record.started_at).timestamp() for record in records]
        for mode, values in by_mode.items():
            gaps = [
                began[index + 1] - began[index] - _windows_s(record)
                for index, record in enumerate(records[:-1])
                if index > 0 and record.cell.mode == mode
            ]
            values.append(median(gaps))
    for mode, values in by_mode.items():
        _show(f"each further cell of a sweep ({mode}), beyond its windows", 0.2, values)


def _windows_s(record: Record) -> float:
    """Seconds that the settings ask for: warm-up, measurement, and the breakdown of steps by phase."""
    assert record.measurement is not None, record.reason
    found = record.measurement.breakdown
    steps = [] if found is None else [*found.undisturbed_s, *(sum(phase) for phase in found.phases_s.values())]
    return windows_s(record) + sum(steps)


def _records(folder: Path) -> list[Record]:
    return [read(path) for path in folder.glob(RECORDS)]


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=runs_folder(), prefix="bench-") as folder:
        yield Path(folder)


def _rounds(seconds: Callable[[], float]) -> list[float]:
    return [seconds() for _ in range(NUM_ROUNDS + 1)][1:]


def _command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "accelbench.cli", *words]


def _seconds(words: Sequence[str]) -> float:
    return _seconds_of(_command(words))


def _seconds_of(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def _seconds_to_card(words: Sequence[str]) -> float:
    start = time.perf_counter()
    with subprocess.Popen(_command(words), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ends = [time.perf_counter() for line in process.stdout if line.startswith(CARD)]
    assert ends, f"no card: {' '.join(words)}"
    return ends[0] - start


def _show(name: str, goal_s: float | None, values: Sequence[float]) -> None:
    goal = "" if goal_s is None else f"{goal_s:g} s"
    print(f"{name:<58} {goal:>6} {median(values):>5.2f} s   {min(values):.2f} to {max(values):.2f}", flush=True)
