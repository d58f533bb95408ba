"""Makes remarks about the numbers of a record. docs/reading-the-report.md explains doubts, tips and notes."""

from collections.abc import Iterator
from enum import StrEnum
from statistics import fmean, median

from accelbench.presentation import counted, significant
from accelbench.schema.cell import (
    MODULE,
    SERVING,
    SHARE_ONE_CPU,
    Cell,
    Definition,
    Mode,
    Pipeline,
    Precision,
    Protocol,
    Span,
    Status,
    Stop,
)
from accelbench.schema.measurement import Measurement, Serving, TargetTraining
from accelbench.schema.record import Record, Row
from accelbench.stats import order_statistics

# Percent of one core. If other processes use more, a cell gets a doubt. The sampler and the kernel's threads use far
# less.
MAX_OTHERS_PERCENT = 10.0
# Cores beyond the threads of a cell: on a busy machine, a library's helper threads wait at times.
MAX_MORE_CORES = 0.5
# Relative half-width of the throughput's interval. A cell above it is noisy.
MAX_HALF_WIDTH = 0.05
MAX_CHANGE = 0.05  # the largest change as a share of the speed
MAX_TARGET_INTERVAL = 0.05  # largest ratio of the time between two evaluations to the time to the target
# The largest share of the CPU time for the kernel; and the most seconds that a page fault costs, including the later
# unmapping. In a virtual machine, 9 us were measured.
MAX_SYSTEM_SHARE = 0.05
FAULT_S = 10e-6


class Kind(StrEnum):
    """What a remark means for a number. The value of a kind is the name of its column in `cells.csv`."""

    doubt = "warnings"  # the number may be wrong by more than its interval shows
    tip = "tips"  # the number is right, but other settings may be faster; the advice ends at the first colon
    note = "notes"  # the number is right, and its interval or an empty column shows the same


Remark = tuple[Kind, str]  # kind, and a sentence about a cell


def remarks(record: Record, row: Row, *, about_numbers: bool = True) -> list[Remark]:
    """Returns the remarks about the cell of `row`. If `about_numbers` is false, only those from the cell's process."""
    # An engine's warnings are doubts: the engine did not do what the cell asks for, or could not check what ran.
    measured = record.measurement
    assert measured is not None
    of_process = [(Kind.doubt, text) for text in measured.warnings]
    of_process += [(Kind.note, text) for text in measured.notes]
    if not about_numbers:
        return of_process
    return [
        *of_process,
        *_about_blocks(record, measured, row),
        *(_about_requests(measured.serving) if measured.serving else ()),
        *(_about_target(record.cell, measured.target) if measured.target else ()),
        *_about_machine(record, measured, row),
        *_about_throttling(record, measured),
        *_about_ceilings(record, row),
    ]


def was_beside_others(record: Record) -> bool:
    """Returns True if other processes used more than `MAX_OTHERS_PERCENT` of a core during the measurement."""
    if record.system is None or record.measurement is None:
        return False
    percent = record.system.mean("other_cpu_utilization_percent", record.measurement.steady_boot_s)
    return (percent or 0.0) > MAX_OTHERS_PERCENT


def output_error_text(precision: Precision, error: float | None) -> str:
    """Returns how much an output differs from the output in fp32, such as `1.2 %`.

    Returns "" if the error is unknown or 0, or if the cell computes in fp32 or fp64.
    """
    if not error or precision in (Precision.fp32, Precision.fp64):
        return ""
    return "<0.1 %" if error < 0.001 else f"{significant(100 * error, 2)} %"


def relative_half_width(row: Row) -> float | None:
    """Returns half the width of the throughput's 95 % interval, divided by the throughput. Returns None if unknown."""
    low, high = row["samples_per_s_low"], row["samples_per_s_high"]
    return None if low is None or high is None else (high - low) / 2 / row["samples_per_s"]


def interval_text(row: Row) -> str:
    """Returns `relative_half_width` in per cent, such as `±6.2 %`. Returns "" if it is unknown."""
    half = relative_half_width(row)
    if half is None:
        return ""
    digits = 2 if half >= 0.01 else 1
    return f"±{significant(100 * half, digits)} %"


def _about_blocks(record: Record, measured: Measurement, row: Row) -> Iterator[Remark]:
    """Remarks about warm-up, blocks and epochs."""
    blocks, cell = measured.blocks, record.cell
    yield from _about_end(cell, measured)
    if blocks:
        if len(blocks) < order_statistics.NUM_SAMPLES_FOR[50]:
            yield Kind.doubt, f"only {counted(len(blocks), 'block')} measured"
        yield from _about_rates(measured, row)
    if len(measured.epochs) == 1 and cell.mode == Mode.train:
        yield Kind.doubt, "only one epoch: its speed includes the first steps and their compilation"
    if measured.settled is False:
        yield Kind.doubt, f"step times had not settled after {measured.warmup_total_s:.1f} s of warm-up"


def _about_rates(measured: Measurement, row: Row) -> Iterator[Remark]:
    width = relative_half_width(row)
    if width is not None and width > MAX_HALF_WIDTH:
        yield Kind.note, f"noisy: ±{100 * width:.0f} %"
    rates = measured.steady_rates
    together = sum(block.num_samples for block in measured.blocks) / sum(
        block.seconds for block in measured.blocks
    )
    is_inside = width is not None and row["samples_per_s_low"] <= together <= row["samples_per_s_high"]
    # A change of speed also widens the interval.
    is_noise = is_inside and not order_statistics.ends_apart(rates)
    difference = together / median(rates) - 1
    if abs(difference) > MAX_CHANGE and not is_noise:
        differs = f"differs by {100 * difference:+.0f} % from the speed of the median block"
        yield Kind.doubt, f"the overall speed {differs}: some steps take much longer than others"
    changed = order_statistics.change(rates)
    if abs(changed) > MAX_CHANGE:
        yield Kind.doubt, f"the speed changed by {100 * changed:+.0f} % while it was measured"


def _about_end(cell: Cell, measured: Measurement) -> Iterator[Remark]:
    num = measured.num_timed_steps
    of_all = f" of {cell.steps:,}" if cell.protocol == Protocol.steps else ""
    if measured.is_partial and measured.target:
        epochs = f"{measured.target.evaluations[-1].epochs:.3g} of at most {cell.epochs} epochs"
        yield Kind.doubt, f"partial: {epochs}, timeout_s"
    elif measured.is_partial and not measured.serving:  # `_about_requests` has the remark for serving
        yield Kind.doubt, f"partial: {num:,}{of_all} steps, timeout_s"
    elif measured.stop == Stop.budget:
        few = f"{num:,}{of_all} steps were measured, after {measured.num_warmup_steps:,} of warm-up"
        yield Kind.doubt, f"budget_s={cell.budget_s:g} is too short: {few}"


def _about_requests(serving: Serving) -> Iterator[Remark]:
    if serving.ended_early:
        yield Kind.doubt, f"ended early: {serving.ended_early}"
    if serving.num_errors and (serving.error or not serving.ended_early):
        why = f"requests have no answer{f': {serving.error}' if serving.error else ''}"
        yield Kind.doubt, f"{serving.num_errors:,} of {serving.num_requests:,} {why}"


def _about_target(cell: Cell, training: TargetTraining) -> Iterator[Remark]:
    """Remarks on how the training ended, and on how precisely its time to the target is known."""
    target = cell.target
    last = training.evaluations[-1]
    values = [evaluation.value for evaluation in training.evaluations if evaluation.value is not None]
    if last.value is None:
        yield (
            Kind.note,
            f"the loss or the metric was not finite after {last.epochs:.3g} epochs, so the training ended",
        )
    elif training.hit is None:
        best = significant(min(values) if target.is_lower else max(values))
        num = counted(len(values), "evaluation")
        yield (
            Kind.note,
            f"{target.text} was not reached in {last.epochs:.3g} epochs: the best of {num} was {best}",
        )
    if training.stayed is False:
        yield (
            Kind.note,
            f"the target was reached, but the next evaluation missed it, with {significant(last.value)}",
        )
    if training.hit is not None and target.definition == Definition.passage:
        share = 1 - earliest_hit_s(training) / training.evaluations[training.hit].ended_s
        if share > MAX_TARGET_INTERVAL:
            may_be = f"the time to the target may be up to {100 * share:.0f} % shorter"
            yield Kind.doubt, f"{may_be}: use a smaller target.every"


def earliest_hit_s(training: TargetTraining) -> float:
    """Returns the earliest time at which the training can have reached the target.

    This is the end of the last evaluation before the target was reached, or else the start of training.
    """
    if training.hit:
        return training.evaluations[training.hit - 1].ended_s
    return min((part.began_s for part in training.log if part.span == Span.train), default=0.0)


def _about_machine(record: Record, measured: Measurement, row: Row) -> Iterator[Remark]:
    cell = record.cell
    if was_beside_others(record):
        used = row["other_cpu_utilization_percent"]
        yield Kind.doubt, f"other processes used {used:.0f} % of a core during the measurement"
    if cell.device in SHARE_ONE_CPU:
        yield from _about_threads(record, measured)
    kernels_share, faults = row["system_time_share"], row["page_faults_per_s"]
    if cell.device not in SHARE_ONE_CPU or kernels_share is None or faults is None:
        return
    # The tip is given only if page faults explain a large part of the kernel's time. 100 percent: one core.
    faults_matter = faults * FAULT_S > MAX_SYSTEM_SHARE * row["cpu_utilization_percent"] / 100
    if kernels_share > MAX_SYSTEM_SHARE and faults_matter:
        why = f"{100 * kernels_share:.0f} % of the CPU time is the kernel's, with {faults:,.0f} page faults a second"
        yield Kind.tip, f"try allocator=jemalloc: {why}"


def _about_threads(record: Record, measured: Measurement) -> Iterator[Remark]:
    cores = record.environment.get("machine", {}).get("num_threads")
    if measured.threads is None or cores is None:
        return
    threads = measured.threads * record.cell.num_processes
    if threads < cores:
        data = record.cell.data
        has_workers = data.pipeline == Pipeline.jpeg or data.name == MODULE or record.cell.protocol in SERVING
        if record.system is None or has_workers:
            return
        # The interval of the first sample began before the steady state.
        busy = record.system.within("cpu_utilization_percent", measured.steady_boot_s)[1:]
        waiting = record.system.within("waiting_percent", measured.steady_boot_s)[1:]
        wanted = (fmean(busy or [0.0]) + fmean(waiting or [0.0])) / 100
        if wanted > threads + MAX_MORE_CORES:
            of_others = "another library, such as NumPy, has threads of its own"
            yield Kind.doubt, f"its threads wanted {wanted:.1f} cores, but threads={threads}: {of_others}"


def _about_ceilings(record: Record, row: Row) -> Iterator[Remark]:
    """Yields a remark if the cell is faster than its device's ceiling (peak rate)."""
    share = row["mfu"]
    if record.status == Status.ok and share is not None and share > 1:
        yield Kind.doubt, f"{share:.2f} times the device's ceiling"


def _about_throttling(record: Record, measured: Measurement) -> Iterator[Remark]:
    system, steady = record.system, measured.steady_boot_s
    if system is None or steady is None:
        return
    of_gpus = [system.within(f"gpu_{index}_throttled", steady) for index in range(measured.num_devices)]
    causes = {
        "the CPU quota": system.increase("cpu_quota_throttled_s", steady),
        "the CPU's temperature": round(system.increase("cpu_thermal_throttles", steady)),
        "the GPU's temperature or power supply": any(map(any, of_gpus)),
    }
    if names := [name for name, occurred in causes.items() if occurred]:
        yield Kind.doubt, f"slowed down by {' and '.join(names)}"
