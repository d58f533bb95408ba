"""Makes remarks about the numbers of a record. docs/reading-the-report.md explains doubts, tips and notes."""

from collections.abc import Iterator
from enum import StrEnum
from statistics import fmean, median

from accelbench.judging import target
from accelbench.presentation import counted, significant
from accelbench.schema.ceilings import ceilings_in
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, Serving, TargetTraining
from accelbench.schema.record import Record, Row
from accelbench.schema.vocab import (
    EPOCHS,
    MODULE,
    SERVING,
    SHARE_ONE_CPU,
    Device,
    Mode,
    Pipeline,
    Precision,
    Protocol,
    Status,
    Stop,
)
from accelbench.stats import order_statistics

# Percent of one core. If other processes use more, a cell gets a doubt. The sampler and the kernel's threads use far
# less.
MAX_OTHERS_PERCENT = 10.0
MAX_MORE_CORES = 0.5  # cores beyond the threads of a cell: on a busy machine, a library's helper threads wait at times
# Relative half-width of the throughput's interval. A cell above it is noisy.
MAX_HALF_WIDTH = 0.05
# The largest change as a share of the speed, and the largest number of outliers as a share of the steps.
MAX_CHANGE, MAX_OUTLIERS = 0.05, 0.05
MIN_STEPS = 10  # steps of all epochs after the first
MAX_CLOCK_DRIFT = 1e-3
# The largest share of the CPU time for the kernel; and the most seconds that a page fault costs, including the later
# unmapping. In a virtual machine, 9 us were measured.
MAX_SYSTEM_SHARE = 0.05
FAULT_S = 10e-6
# Blocks or steps were disturbed if the speed of blocks is higher than the speed of the median step by more than this
# factor, or lower by more than this factor.
MAX_RATIO = 1.5
SHORT_S = 0.02  # in shorter blocks, the wait at their end changes the speed


class Kind(StrEnum):
    """What a remark means for a number. The value of a kind is the name of its column in `cells.csv`."""

    doubt = "warnings"  # the number may be wrong by more than its interval shows
    tip = "tips"  # the number is right, but other settings may be faster; the advice ends at the first colon
    note = "notes"  # the number is right, and its interval or an empty column shows the same


Remark = tuple[Kind, str, str]  # kind, sentence about a cell, and for a doubt its subject in short
OTHER, SLOWED = "had a warning of the engine or model", "ran slowed down"


def doubt(about: str, text: str) -> Remark:
    """Returns a doubt about a number. `about` is the end of a sentence about cells, such as "had few blocks"."""
    return Kind.doubt, text, about


def remarks(record: Record, row: Row, *, about_numbers: bool = True) -> list[Remark]:
    """Returns the remarks about the cell of `row`. If `about_numbers` is false, only those from the cell's process."""
    # An engine's warnings are doubts: the engine did not do what the cell asks for, or could not check what ran.
    measured = record.measurement
    assert measured is not None
    of_samples = counted_samples(record)
    of_process = [doubt(OTHER, text) for text in [*of_samples, *measured.warnings]]
    of_process += [(Kind.note, text, "") for text in measured.notes if text not in of_samples]
    if not about_numbers:
        return of_process
    return [
        *of_process,
        *_about_blocks(record, measured, row),
        *_about_steps(measured, row),
        *(_about_requests(measured.serving) if measured.serving else ()),
        *(_about_target(record.cell, measured.target) if measured.target else ()),
        *_about_machine(record, measured, row),
        *_about_throttling(record, measured),
        *_about_data(record),
    ]


def counted_samples(record: Record) -> list[str]:
    """Returns notes on batches for which the user's function counted an unexpected number of samples."""
    counted_by = record.cell.model.counted_by
    notes = record.measurement.notes if record.measurement else []
    return [note for note in notes if counted_by is not None and note.endswith(counted_by)]


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
    """Remarks about blocks and epochs."""
    blocks, cell = measured.blocks, record.cell
    yield from _about_end(cell, measured)
    if blocks:
        if len(blocks) < order_statistics.NUM_SAMPLES_FOR[50]:
            yield doubt("had few blocks", f"only {counted(len(blocks), 'block')} measured")
        yield from _about_length(cell, measured)
        yield from _about_rates(measured, row)
    if len(measured.epochs) == 1 and cell.mode == Mode.train:
        yield doubt("ran a single epoch", "only one epoch: its speed includes the first steps and their compilation")
    elif 0 < (num := sum(-(-epoch.num_samples // cell.batch_size) for epoch in measured.epochs[1:])) < MIN_STEPS:
        yield doubt("had few steps", f"the epochs after the first epoch have only {num} steps")


def _about_length(cell: Cell, measured: Measurement) -> Iterator[Remark]:
    lengths = [block.seconds for block in measured.blocks]
    short = sum(seconds < cell.window.block_s for seconds in lengths)
    if short and cell.protocol == Protocol.steps and not measured.steps_are_blocks and median(lengths) < SHORT_S:
        few = f"its {len(lengths)} blocks are shorter than {SHORT_S:g} s"
        yield doubt("had short blocks", f"{few}: the wait for the device after each block lowers the speed")
    elif short and cell.protocol == Protocol.window:
        few = f"{short} of {len(lengths)} blocks are shorter than {cell.window.block_s:g} s"
        yield doubt("had short blocks", f"{few}: the speed was unsteady")


def _about_rates(measured: Measurement, row: Row) -> Iterator[Remark]:
    width = relative_half_width(row)
    if width is not None and width > MAX_HALF_WIDTH:
        yield Kind.note, f"noisy: ±{100 * width:.0f} %", ""
    rates = [block.num_samples / block.seconds for block in measured.blocks]
    together = sum(block.num_samples for block in measured.blocks) / sum(block.seconds for block in measured.blocks)
    is_covered = width is not None and row["samples_per_s_low"] <= together <= row["samples_per_s_high"]
    is_covered &= not order_statistics.ends_apart(rates)  # a change of speed also widens the interval, but is no noise
    difference = together / median(rates) - 1
    if abs(difference) > MAX_CHANGE and not is_covered:
        differs = f"differs by {100 * difference:+.0f} % from the speed of the median block"
        yield doubt("had uneven steps", f"the overall speed {differs}: some steps take much longer than others")
    changed = order_statistics.change(rates)
    if abs(changed) > MAX_CHANGE:
        yield doubt("changed speed", f"the speed changed by {100 * changed:+.0f} % while it was measured")


def _about_end(cell: Cell, measured: Measurement) -> Iterator[Remark]:
    num = measured.num_timed_steps
    of_all = f" of {cell.steps:,}" if cell.protocol == Protocol.steps else ""
    if measured.is_partial and measured.target:
        epochs = f"{measured.target.evaluations[-1].epochs:.3g} of at most {cell.epochs} epochs"
        yield doubt("ran a part of the epochs", f"partial: {epochs}, timeout_s")
    elif measured.is_partial and not measured.serving:  # `_about_requests` has the remark for serving
        yield doubt("ran a part of the steps", f"partial: {num:,}{of_all} steps, timeout_s")
    elif measured.stop == Stop.budget:
        few = f"{num:,}{of_all} steps were measured, after {measured.num_warmup_steps:,} of warm-up"
        yield doubt("had too little time", f"budget_s={cell.budget_s:g} is too short: {few}")


def _about_steps(measured: Measurement, row: Row) -> Iterator[Remark]:
    if measured.settled is False:
        yield doubt("had not settled", f"step times had not settled after {measured.warmup_total_s:.1f} s of warm-up")
    num = len(measured.latency_s)
    outliers = row["num_outliers"] or 0
    if num >= order_statistics.NUM_SAMPLES_FOR[90] and outliers > MAX_OUTLIERS * num:
        yield Kind.note, f"{outliers} of {num} steps are outliers", ""
    if measured.clock_drift is not None and abs(measured.clock_drift) > MAX_CLOCK_DRIFT:
        drift = f"{100 * measured.clock_drift:+.2f} %"
        why = f"the clock differed by {drift} from the kernel's clock that is never adjusted"
        yield doubt("had a clock that drifts", why)
    of_blocks = row["samples_per_s"]
    p50_ms = row["latency_p50_ms"]
    per_step = measured.samples_per_step
    if per_step is not None and p50_ms is not None:
        of_steps = per_step / p50_ms * 1e3
        # Accelerators may be faster in blocks, because these have one wait at their end.
        is_slower = of_blocks * MAX_RATIO < of_steps
        is_faster = of_blocks > MAX_RATIO * of_steps
        if is_slower or (is_faster and measured.device == Device.cpu):
            both = f"single steps suggest {significant(of_steps)} samples/s, but blocks {significant(of_blocks)}"
            why = f"{both}: the speed changed, or some steps are much slower than others"
            yield doubt("had a median step that contradicts the speed", why)
    if measured.work is not None and measured.work.uncounted:
        yield Kind.note, f"operations that can't be counted: {', '.join(measured.work.uncounted)}", ""


def _about_requests(serving: Serving) -> Iterator[Remark]:
    if serving.ended_early:
        yield doubt("ended early", f"ended early: {serving.ended_early}")
    if serving.num_errors and (serving.error or not serving.ended_early):
        why = f"requests have no answer{f': {serving.error}' if serving.error else ''}"
        yield doubt("had requests without an answer", f"{serving.num_errors:,} of {serving.num_requests:,} {why}")


def _about_target(cell: Cell, training: TargetTraining) -> Iterator[Remark]:
    yield from (doubt("had few evaluations", text) for text in target.doubts(cell, training))
    yield from ((Kind.note, text, "") for text in target.notes(cell, training))


def _about_data(record: Record) -> Iterator[Remark]:
    data = record.data
    if data is not None and data.test_in_training and not data.stand_in and record.cell.protocol in EPOCHS:
        percent = f"{100 * data.test_in_training:.0f} % of the test images are also training images"
        yield doubt("had a test set inside its training set", f"{percent}: the accuracy may be too high")


def _about_machine(record: Record, measured: Measurement, row: Row) -> Iterator[Remark]:
    cell = record.cell
    if was_beside_others(record):
        used = row["other_cpu_utilization_percent"]
        yield doubt("ran beside other programs", f"other processes used {used:.0f} % of a core during the measurement")
    if cell.device in SHARE_ONE_CPU:
        yield from _about_threads(record, measured)
    kernels_share, faults = row["system_time_share"], row["page_faults_per_s"]
    if cell.device not in SHARE_ONE_CPU or kernels_share is None or faults is None:
        return
    # The tip is given only if page faults explain a large part of the kernel's time. 100 percent: one core.
    faults_matter = faults * FAULT_S > MAX_SYSTEM_SHARE * row["cpu_utilization_percent"] / 100
    if kernels_share > MAX_SYSTEM_SHARE and faults_matter:
        why = f"{100 * kernels_share:.0f} % of the CPU time is the kernel's, with {faults:,.0f} page faults a second"
        yield Kind.tip, f"try allocator=jemalloc: {why}", ""


def _about_threads(record: Record, measured: Measurement) -> Iterator[Remark]:
    cores = record.environment.get("machine", {}).get("num_threads")
    if measured.threads is None or cores is None:
        return
    threads = measured.threads * record.cell.num_processes
    if threads < cores:
        yield Kind.tip, f"try more threads: {threads} on {cores} cores", ""
        wanted = (_wanted_percent(record, measured) or 0.0) / 100
        if wanted > threads + MAX_MORE_CORES:
            used = f"its threads wanted {wanted:.1f} cores, but threads={threads}"
            yield doubt("used more threads", f"{used}: another library, such as NumPy, has threads of its own")


def about_ceilings(record: Record, row: Row) -> Iterator[Remark]:
    """Yields remarks on the device's ceiling (peak rate): a faster cell, or a ceiling that other programs disturbed."""
    share = row["mfu"]
    measured = record.measurement
    if record.status == Status.ok and measured is not None and share is not None and share > 1:
        yield doubt("was faster than the ceiling", f"{share:.2f} times the device's ceiling")
    ceilings = ceilings_in(record.environment)
    if ceilings is not None and (why := ceilings.disturbance(record.cell.precision)):
        yield Kind.note, f"the device's ceiling (peak rate) is unknown: other programs disturbed the probe ({why})", ""


def _wanted_percent(record: Record, measured: Measurement) -> float | None:
    """Returns the cores that the cell's threads used or waited for, in percent of one core.

    Returns None if they are unknown, or if the cell has other threads that use cores, such as those of data workers.
    """
    data = record.cell.data
    if (
        record.system is None
        or record.cell.protocol in SERVING
        or data.pipeline == Pipeline.jpeg
        or data.name == MODULE
    ):
        return None
    # The interval of the first sample began before the steady state.
    busy = record.system.within("cpu_utilization_percent", measured.steady_boot_s)[1:]
    waiting = record.system.within("waiting_percent", measured.steady_boot_s)[1:]
    return fmean(busy) + fmean(waiting or [0.0]) if busy else None


def _about_throttling(record: Record, measured: Measurement) -> Iterator[Remark]:
    system, steady = record.system, measured.steady_boot_s
    if system is None or steady is None:
        return
    if stopped_s := system.increase("cpu_quota_throttled_s", steady):
        yield doubt(SLOWED, f"the CPU quota was used up for {stopped_s:.1f} s")
    if num := round(system.increase("cpu_thermal_throttles", steady)):
        yield doubt(SLOWED, f"the CPU was slowed down by its temperature on {counted(num, 'occasion')}")
    for index in range(measured.num_devices):
        gpu = system.within(f"gpu_{index}_throttled", steady)
        if any(gpu):
            readings = f"{sum(gpu):.0f} of {len(gpu)} readings"
            yield doubt(SLOWED, f"GPU {index} was slowed down by its temperature or its power supply in {readings}")
