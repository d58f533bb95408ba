"""Rounds of accelbench and a reference. They replace the blocks of accelbench's clock."""

from collections.abc import Callable, Mapping
from functools import partialmethod
from pathlib import Path
from typing import Any
from unittest.mock import patch

from accelbench.data.arrays import Arrays, load_split
from accelbench.measuring.clock import Clock, Runner
from accelbench.project import workplace
from accelbench.schema.cell import STEP_MODES, Cell, DataSpec, Device, Engine, Mode, ModelSpec, Precision, Protocol
from accelbench.schema.measurement import Block
from accelbench.stats.order_statistics import Sample, median

# The interval of the ratio should lie within these bounds.
BOUNDS = (0.95, 1.05)
WIDTH = 16  # characters of the column of cases
run_block = Runner.block
Reference = Callable[[int], float]  # runs a number of steps, and returns the seconds per step


def mnist() -> Path:
    """The folder of the prepared images."""
    return workplace().root / "data" / "mnist"


def cell(model: ModelSpec | str, mode: Mode, batch_size: int, **others: Any) -> Cell:
    """A cell of the `window` protocol in fp32, by default on Lightning, this CPU and MNIST. `others`: more settings."""
    spec = model if isinstance(model, ModelSpec) else ModelSpec(name=model)
    settings = {"suite": "bench", "engine": Engine.pytorch, "device": Device.cpu, "data": DataSpec(name="mnist")}
    settings |= {"precision": Precision.fp32, "protocol": Protocol.window, "epochs": 1, "breakdown_s": 0.0}
    return Cell(model=spec, mode=mode, batch_size=batch_size, **{**settings, **others})


def compare_all(
    cases: Mapping[str, tuple[ModelSpec, int]],
    num_runs: int,
    others: dict[str, Any],
    run: Any,
    reference: Callable[[Cell, Arrays], Reference],
) -> None:
    """Prints a row for each of `cases`, in training and in inference: samples/s of the cell over those of a reference.

    A row summarises the rounds of several runs, each with a new network. The first round of a run warms up the
    reference. No other round is dropped or repeated. `others` are settings of the cells, as `cell` takes them. `run`
    measures a cell with the data in a folder. `reference` makes the reference of one run.
    """
    print(f"{'case':<{WIDTH}} {'mode':<6} {'plain/s':>10} {'ratio':>6}   95 % interval   rounds   within bounds")
    for name, (model, batch_size) in cases.items():
        for mode in STEP_MODES:
            compared = cell(model, mode, batch_size, **others)
            arrays = load_split(mnist(), "train" if mode == Mode.train else "test")
            rounds: list[tuple[float, float]] = []
            for _ in range(num_runs):
                mine: list[tuple[float, float]] = []
                with patch.object(Runner, "block", partialmethod(run_both, reference(compared, arrays), mine)):
                    run(compared, mnist())
                rounds += mine[1:]
            ratios = [plain_s / ours_s for ours_s, plain_s in rounds]
            rate = median([batch_size / plain_s for _, plain_s in rounds])
            low, high = Sample(ratios).percentile_interval(50) or (float("nan"),) * 2
            verdict = "yes" if BOUNDS[0] <= low and high <= BOUNDS[1] else "NO"
            texts = [f"{name:<{WIDTH}} {mode:<6} {rate:>10,.0f} {median(ratios):>6.3f}   {low:.3f} to {high:.3f} "]
            print(*texts, f"{len(ratios):>6}   {verdict}", flush=True)


def run_both(runner: Runner, reference: Reference, rounds: list[tuple[float, float]], num_steps: int) -> Clock[Block]:
    """One round: a block of accelbench and as many steps of the reference. They alternate in which is first.

    Appends to `rounds` the seconds per step of accelbench and of the reference.
    """
    before_s = reference(num_steps) if len(rounds) % 2 else None
    block = yield from run_block(runner, num_steps)
    rounds.append((block.seconds / num_steps, reference(num_steps) if before_s is None else before_s))
    return block
