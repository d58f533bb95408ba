"""One record -> one flat row of published numbers, which the report and the trackers both show."""

import functools
import operator
from collections.abc import Mapping, Sequence

from accelbench.judging import disturbed
from accelbench.judging.answers import answers_columns
from accelbench.judging.energy import joules_per_sample
from accelbench.judging.roofline import bound, share
from accelbench.judging.settings_columns import settings_of
from accelbench.judging.warnings import counted_samples, warnings_of_record
from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.cell import Cell
from accelbench.schema.conditions import SystemSeries
from accelbench.schema.measurement import Breakdown, Measurement, Operator
from accelbench.schema.record import Record, Row
from accelbench.schema.text import clean
from accelbench.schema.vocab import SHARE_ONE_CPU, XLA, Engine, Mode, Phase, Protocol, Provenance
from accelbench.stats import order_statistics

MB = 1e6  # bytes
# The measurement's lists with a value for each step that was waited for.
STEPS = ("latency_s", "launch_s", "data_s", "copy_in_s", "copy_out_s")
# Columns of a measurement that a cell keeps whose numbers are not published.
NOT_NUMBERS = ("device_name", "disturbed", "warnings")
MAX_OPERATORS = 3  # named in a row: those that take the most time of a step

# Column -> the sampler's series whose mean over the steady state it holds. A GPU's series are of the whole card.
SERIES = {
    "mean_host_mb": "host_memory_mb",
    "mean_gpu_used_mb": "gpu_0_memory_mb",
    "cpu_utilization_percent": "cpu_utilization_percent",
    "other_cpu_utilization_percent": "other_cpu_utilization_percent",
    "page_faults_per_s": "page_faults_per_s",
    "gpu_utilization_percent": "gpu_0_utilization_percent",
    "gpu_power_w": "gpu_0_power_w",
    "gpu_temperature_c": "gpu_0_temperature_c",
    "gpu_clock_mhz": "gpu_0_sm_clock_mhz",
}


def summarise(record: Record) -> Row:
    """The row of `cells.csv` for `record`: its columns, in order; None if unknown, or disturbed; texts are clean."""
    row = {**settings_of(record), **dict.fromkeys(MEASURED)}
    if record.measurement is not None:
        row |= _rates(record, record.measurement)
        steps = {name: order_statistics.Sample(getattr(record.measurement, name)) for name in STEPS}
        row |= _latencies(record.measurement, steps)
        row |= _facts(record.measurement)
        row |= _steadiness(record.measurement)
        row |= _work(record, record.measurement, steps, row)
        if record.measurement.breakdown is not None:
            row |= _breakdown(record.measurement.breakdown)
    if record.system is not None:
        peak = record.system.peak_host_bytes
        row["peak_host_mb"] = peak / MB if peak is not None else None
        for column, name in SERIES.items():
            row[column] = _steady_mean(record.system, name, record.measurement)
        row["system_time_share"] = _system_time_share(record.system, record.measurement, row)
        if record.measurement is not None:
            row |= _energy(record, record.measurement, record.system)
    if record.measurement is not None:
        row["disturbed"] = disturbed.reason(record)
        about_numbers = [] if row["disturbed"] else warnings_of_record(record, row)
        known = [*counted_samples(record), *record.measurement.warnings, *about_numbers]
        row["warnings"] = "; ".join(known) or None
    if row["disturbed"]:
        row = without_numbers(row)
    # What is printable is clean; most texts are.
    unclean = {name: value for name, value in row.items() if isinstance(value, str) and not value.isprintable()}
    return row | {name: clean(value) for name, value in unclean.items()}


def without_numbers(row: Row) -> Row:
    """The row of a cell whose numbers are not published."""
    return row | {column: None for column in MEASURED if column not in NOT_NUMBERS}


def ceilings_of(record: Record) -> Ceilings | None:
    """The ceilings of all devices that computed the cell together; None if they were not probed, or beside other load.

    Several devices of one CPU share it, and the probe measured it as a whole.
    """
    probed = ceilings_in(record.environment)
    if probed is not None and probed.disturbance(record.cell.precision):
        return None
    if probed is None or record.measurement is None or record.cell.device in SHARE_ONE_CPU:
        return probed
    return probed.of_devices(record.measurement.num_devices)


def warnings_of(row: Row) -> list[str]:
    """The list of warnings in a row, which joins them with `; `."""
    return str(row["warnings"]).split("; ") if row["warnings"] else []


def phases_ms(row: Row) -> dict[Phase, float]:
    """Milliseconds of each phase of a step; empty if unknown, or if the clock saw none pass.

    At least 0: `framework` is the rest of the step, which comes out negative if measuring slowed the phases down.
    """
    known = {phase: row[f"breakdown_{phase}_ms"] for phase in Phase}
    lengths = {phase: max(0.0, float(value)) for phase, value in known.items() if value is not None}
    return lengths if any(lengths.values()) else {}


def _steady_mean(system: SystemSeries, name: str, measured: Measurement | None) -> float | None:
    """The mean of a series over the steady state; None without a steady state or without samples in it."""
    return _mean(system.within(name, measured.steady_boot_s if measured else None))


def _system_time_share(system: SystemSeries, measured: Measurement | None, row: Row) -> float | None:
    """The kernel's part of the processor time in the steady state."""
    of_kernel, whole = _steady_mean(system, "cpu_system_percent", measured), row["cpu_utilization_percent"]
    return of_kernel / whole if of_kernel is not None and isinstance(whole, float) and whole > 0 else None


BREAKDOWN = [*(f"breakdown_{phase}_ms" for phase in Phase), "breakdown_disturbance"]
_MEASURED = """
samples_per_s samples_per_s_low samples_per_s_high tokens_per_s num_params threads batch_size_per_device
latency_p50_ms latency_p50_ms_low latency_p50_ms_high latency_p90_ms latency_p90_ms_low latency_p90_ms_high
latency_p99_ms latency_p99_ms_low latency_p99_ms_high
launch_p50_ms data_wait_ms copy_in_ms compute_ms copy_out_ms data_wait_share
num_blocks num_steps num_outliers stopped num_warmup_steps settled
export_s quantize_s compile_s num_compiles artifact_mb num_fallbacks first_step_s build_s
peak_device_mb peak_host_mb mean_host_mb mean_gpu_used_mb
cpu_utilization_percent other_cpu_utilization_percent system_time_share page_faults_per_s
gpu_utilization_percent gpu_power_w
gpu_temperature_c gpu_clock_mhz
flops_per_sample bytes_per_sample num_operators busiest_operators flops_per_s ceiling_flops_per_s bound
energy_j_per_sample energy_provenance cost_per_million_samples
mfu accuracy fp32_accuracy accuracy_change accuracy_change_low accuracy_change_high
train_accuracy loss test_loss evaluation_s output_error time_s time_provenance device_name num_devices
allocator_library cudnn_benchmark disturbed warnings
"""
MEASURED = [*_MEASURED.split(), *BREAKDOWN]


def steady_rates(measured: Measurement) -> list[float]:
    """Samples/s, one value per steady epoch if whole epochs were run, else one per block; may be empty."""
    return [part.num_samples / part.seconds for part in measured.steady_epochs or measured.blocks]


def _rates(record: Record, measured: Measurement) -> Row:
    """Throughput, and the time of the whole job: measured if whole epochs were run, else estimated from throughput."""
    if measured.epochs:
        # Training runs all epochs; an inference job is one pass over the data, measured several times.
        trains = record.cell.mode == Mode.train
        seconds = [epoch.seconds for epoch in (measured.epochs if trains else measured.steady_epochs)]
        time_s: float | None = sum(seconds) if trains else order_statistics.median(seconds)
        provenance = Provenance.measured
    else:
        time_s, provenance = None, Provenance.estimated
    rates = steady_rates(measured)
    if not rates:
        return {}
    sample = order_statistics.Sample(rates)
    rate = sample.median
    low, high = sample.percentile_interval(50) or (None, None)
    if record.cell.protocol != Protocol.fit:
        trains = record.cell.mode == Mode.train
        num = measured.num_train_samples if trains else measured.num_test_samples
        time_s = None if num is None else num * (record.cell.epochs if trains else 1) / rate
    return {
        "samples_per_s": rate,
        "samples_per_s_low": low,
        "samples_per_s_high": high,
        "tokens_per_s": None if measured.tokens_per_sample is None else rate * measured.tokens_per_sample,
        "time_s": time_s,
        "time_provenance": None if time_s is None else provenance.value,
        "batch_size_per_device": record.cell.batch_size // measured.num_devices,
    }


def _latencies(measured: Measurement, steps: Mapping[str, order_statistics.Sample]) -> Row:
    latency = steps["latency_s"]
    row: Row = {}
    for percent in (50, 90, 99):
        value = latency.supported_percentile(percent)
        low, high = (value is not None and latency.percentile_interval(percent)) or (None, None)
        column = f"latency_p{percent}_ms"
        row |= {column: _ms(value), f"{column}_low": _ms(low), f"{column}_high": _ms(high)}
    parts = {"launch_p50_ms": steps["launch_s"], "data_wait_ms": steps["data_s"], "copy_in_ms": steps["copy_in_s"]}
    parts |= {"compute_ms": _compute(steps), "copy_out_ms": steps["copy_out_s"]}
    for column, sample in parts.items():
        row[column] = _ms(sample.median) if len(sample) else None
    if len(latency) >= order_statistics.NUM_SAMPLES_FOR[50]:
        row["num_outliers"] = latency.num_outliers
    row["data_wait_share"] = _data_wait_share(measured)
    return row


def _data_wait_share(measured: Measurement) -> float | None:
    """Of the steps that were waited for, or of whole epochs; None if steps fetch their batches themselves."""
    if measured.data_s and measured.latency_s:
        return sum(measured.data_s) / sum(measured.latency_s)
    epochs = [(epoch.data_s, epoch.seconds) for epoch in measured.steady_epochs if epoch.data_s is not None]
    return sum(data_s for data_s, _ in epochs) / sum(seconds for _, seconds in epochs) if epochs else None


def _compute(steps: Mapping[str, order_statistics.Sample]) -> order_statistics.Sample:
    """Seconds of computation per waited-for step: the step without waiting for data and copying."""
    latency = steps["latency_s"]
    parts = [steps[name] for name in ("data_s", "copy_in_s", "copy_out_s")]
    # A part is empty if nothing is moved.
    moved = [part.values for part in parts if len(part) and len(part) == len(latency)]
    return order_statistics.Sample(functools.reduce(operator.sub, moved, latency.values)) if moved else latency


def _breakdown(breakdown: Breakdown) -> Row:
    """Means over the steps with a wall time between the quartiles, so that the phases add up to the mean step."""
    totals = [sum(step) for step in zip(*breakdown.phases_s.values(), strict=True)]
    order = sorted(range(len(totals)), key=totals.__getitem__)
    quarter = len(order) // 4
    middle = order[quarter : len(order) - quarter]
    row: Row = {
        f"breakdown_{phase}_ms": _ms(_mean([seconds[step] for step in middle]))
        for phase, seconds in breakdown.phases_s.items()
    }
    return row | {
        "breakdown_disturbance": order_statistics.median(totals) / order_statistics.median(breakdown.undisturbed_s) - 1
    }


def _work(record: Record, measured: Measurement, steps: Mapping[str, order_statistics.Sample], row: Row) -> Row:
    """The work of a step, how near it comes to the ceiling of its device, and what bounds it."""
    work = measured.work
    if work is None:
        return {}
    ceilings = ceilings_of(record)
    precision, batch, speed = record.cell.precision, _samples_per_step(record.cell, measured), row["samples_per_s"]
    ceiling = ceilings.ceiling_of(precision) if ceilings else None
    rate = None if work.flops is None or not isinstance(speed, float) else work.flops / batch * speed
    num_batches = record.cell.keras.steps_per_execution if record.cell.keras else 1  # in one timed step
    data_s = steps["data_s"].median / num_batches if measured.data_s else None
    step_s = batch / speed if isinstance(speed, float) else None
    copy_s = sum(part.median for part in (steps["copy_in_s"], steps["copy_out_s"]) if len(part)) / num_batches
    options = record.cell.options
    fused = options.compile or options.cuda_graphs or record.cell.device in XLA
    fused = fused or record.cell.engine != Engine.lightning  # the others compile whole steps
    found = step_s and bound(
        work, step_s, ceilings, precision, fused=fused, data_s=data_s, copy_s=copy_s if measured.copy_in_s else None
    )
    return {
        "flops_per_sample": None if work.flops is None else work.flops / batch,
        "bytes_per_sample": None if work.bytes is None else work.bytes / batch,
        "num_operators": work.num_operators,
        "flops_per_s": rate,
        "ceiling_flops_per_s": ceiling,
        "mfu": None if step_s is None else share(work.flops, step_s, ceiling),
        "bound": found.value if found else None,
    }


def _samples_per_step(cell: Cell, measured: Measurement) -> float:
    """Samples of one step: as many as were asked for, unless a function of the user counts them."""
    return (measured.samples_per_step if cell.model.samples else None) or cell.batch_size


def _energy(record: Record, measured: Measurement, system: SystemSeries) -> Row:
    joules = joules_per_sample(record.cell.device, measured, system, record.environment.get("idle_w", {}))
    provenance = None if joules is None else Provenance.measured.value
    return {"energy_j_per_sample": joules, "energy_provenance": provenance}


def _steadiness(measured: Measurement) -> Row:
    """How much was measured, and how steady it was."""
    return {
        "num_blocks": len(measured.blocks) or None,
        "num_steps": sum(block.num_steps for block in measured.blocks) or None,
        "stopped": measured.stop.value if measured.stop else None,
        "num_warmup_steps": measured.num_warmup_steps or None,
        "settled": measured.settled,
    }


def _facts(measured: Measurement) -> Row:
    peak, evaluation = measured.peak_device_bytes, measured.evaluation
    # Without the first epoch's, which includes compilation, if there are others.
    evaluations_s = [epoch.evaluation.seconds for epoch in measured.steady_epochs if epoch.evaluation]
    return {
        "num_params": measured.num_params,
        "threads": measured.threads,
        "export_s": measured.export_s,
        "quantize_s": measured.quantize_s,
        "compile_s": measured.compile_s,
        "artifact_mb": None if measured.artifact_bytes is None else measured.artifact_bytes / MB,
        "num_compiles": measured.num_compiles,
        "num_fallbacks": None if measured.fallbacks is None else len(measured.fallbacks),
        "first_step_s": measured.first_step_s,
        "build_s": measured.build_s,
        "peak_device_mb": peak / MB if peak is not None else None,
        "accuracy": evaluation.accuracy if evaluation else None,
        **answers_columns(measured.answers),
        # The loss of a window's last batch only shows how many steps ran, not how well the model learns.
        "loss": measured.epochs[-1].loss if measured.epochs else None,
        "train_accuracy": measured.epochs[-1].accuracy if measured.epochs else None,
        "output_error": measured.output_error,
        "busiest_operators": _busiest(measured.operators),
        "test_loss": evaluation.loss if evaluation else None,
        "evaluation_s": order_statistics.median(evaluations_s) if evaluations_s else None,
        "device_name": measured.device_name,
        "num_devices": measured.num_devices,
        "allocator_library": measured.allocator_library,
        "cudnn_benchmark": measured.cudnn_benchmark,
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _busiest(operators: Sequence[Operator]) -> str | None:
    named = operators[:MAX_OPERATORS]
    return ", ".join(f"{each.name} x{each.num_calls} {100 * each.share:.0f} %" for each in named) or None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
