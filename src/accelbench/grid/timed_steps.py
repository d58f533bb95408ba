"""How long a cell's steps take under its protocol, once the length of one step is known."""

import math

from accelbench.measuring.breakdown import MAX_STEPS, MIN_STEPS
from accelbench.measuring.clock import BLOCK_MARGIN, MIN_SAMPLES, NUM_INFER_EPOCHS, STRETCH
from accelbench.schema.cell import Cell, Window
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import Mode, Protocol

# A warm-up of slow steps settles after this many times its minimum of steps.
WARMUP_STRETCH = 1.6
# Steps after the timed ones: they count the work and, in inference, show what the outputs are.
NUM_CHECK_STEPS = {Mode.infer: 5, Mode.train: 1}
# The time of an evaluated sample, as a share of a trained one: it has no backward pass.
EVALUATION = 1 / 3


def expected_s(cell: Cell, step_s: float, num_samples: tuple[int, int]) -> float:
    """Seconds that all steps of `cell` take, on a machine without other load."""
    others_s = NUM_CHECK_STEPS[cell.mode] * step_s
    if cell.protocol == Protocol.fit:
        num_train, num_test = num_samples
        num = cell.epochs * (num_train + EVALUATION * num_test)
        return (num if cell.mode == Mode.train else NUM_INFER_EPOCHS * num_test) / cell.batch_size * step_s + others_s
    if cell.breakdown_s:
        others_s += max(2 * MIN_STEPS * step_s, min(cell.breakdown_s, 2 * MAX_STEPS * step_s))
    if cell.protocol == Protocol.steps:
        return (cell.warmup + 2 * cell.steps) * step_s + others_s
    return _window_s(cell.window, step_s) + others_s


def _window_s(window: Window, step_s: float) -> float:
    warmup_s = max(window.warmup_s, WARMUP_STRETCH * window.warmup_steps * step_s)
    few_blocks_s = MIN_SAMPLES * max(BLOCK_MARGIN * window.block_s, step_s)
    blocks_s = max(window.measure_s, step_s, min(few_blocks_s, STRETCH * window.measure_s))
    few_steps_s = min(MIN_SAMPLES * step_s, STRETCH * window.latency_s)
    single_s = min(window.latency_steps * step_s, max(window.latency_s, step_s, few_steps_s))
    return warmup_s + blocks_s + single_s


def observed_s(measured: Measurement) -> float:
    """Seconds of the steps that were timed: warm-up, blocks, single steps, phases, epochs and evaluations."""
    phases = measured.breakdown
    phases_s = [] if phases is None else [*phases.undisturbed_s, *map(sum, phases.phases_s.values())]
    epochs_s = [epoch.seconds + (epoch.evaluation.seconds if epoch.evaluation else 0.0) for epoch in measured.epochs]
    blocks_s = [block.seconds for block in measured.blocks]
    return sum([measured.warmup_total_s, *blocks_s, *measured.latency_s, *phases_s, *epochs_s])


def step_s(cell: Cell, measured: Measurement) -> float | None:
    """Seconds of a step in the steady state; None if none was measured."""
    if measured.blocks:
        return sum(block.seconds for block in measured.blocks) / sum(block.num_steps for block in measured.blocks)
    if epochs := measured.steady_epochs:
        num_steps = sum(math.ceil(epoch.num_samples / cell.batch_size) for epoch in epochs)
        return sum(epoch.seconds for epoch in epochs) / num_steps
    return None
