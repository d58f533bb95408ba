"""Computes the published numbers of a record as one flat row. The report and the trackers show these rows."""

from pathlib import PurePath
from statistics import fmean

import numpy as np

from accelbench.judging.costs import joules_per_sample, joules_within
from accelbench.judging.verdict import ceilings_of_cell, flops_per_s, step_size, why_disturbed
from accelbench.judging.warnings import Kind, earliest_hit_s, remarks
from accelbench.presentation import significant
from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.cell import (
    ON_TORCH,
    OWN_BATCHES,
    RANDOM,
    UNUSED,
    XLA,
    Bound,
    Cell,
    Definition,
    Library,
    Mode,
    Phase,
    Pipeline,
    Protocol,
    Provenance,
    Span,
    Verdict,
    value_text,
)
from accelbench.schema.measurement import (
    Breakdown,
    Generation,
    Measurement,
    Serving,
    SystemSeries,
    TargetTraining,
    Work,
)
from accelbench.schema.record import Record, Row, node_of, number_of, with_bounds
from accelbench.schema.setting import declared
from accelbench.schema.text import clean
from accelbench.stats import order_statistics
from accelbench.stats.intervals import share_difference
from accelbench.stats.order_statistics import Sample

MB = 1e6  # bytes
# Columns that are attributes of the measurement with the same names.
_FACTS = """
num_params threads export_s quantize_s compile_s num_compiles first_step_s build_s settled output_error device_name
num_devices allocator_library cudnn_benchmark
"""
# Measured columns that a cell keeps if its numbers are not published.
NOT_NUMBERS = ("device_name", "disturbed", "warnings", "notes")
MAX_OPERATORS = 3  # number of operators named in a row: the operators that take the most time of a step
# A reading of a GPU's power is a mean over up to a second (nvml.h, nvmlDeviceGetPowerUsage). Readings in the first
# second of a steady state would include the warm-up.
POWER_AVERAGED_S = 1.0
# The settings whose declarations give them a column.
DECLARED = tuple(setting for setting in declared(Cell) if setting.column)

# Column -> the sampler's series; the column has its mean over the steady state. A GPU's series are of the whole card.
SERIES = {
    "mean_host_mb": "host_memory_mb",
    "mean_gpu_used_mb": "gpu_0_memory_mb",
    "cpu_utilization_percent": "cpu_utilization_percent",
    "other_cpu_utilization_percent": "other_cpu_utilization_percent",
    "page_faults_per_s": "page_faults_per_s",
    "gpu_utilization_percent": "gpu_0_utilization_percent",
    "gpu_temperature_c": "gpu_0_temperature_c",
    "gpu_clock_mhz": "gpu_0_sm_clock_mhz",
}


def summarise(record: Record) -> Row:
    """Returns the row of `cells.csv` for `record`. The columns are in order, and the texts are safe to print.

    A measured value is None if it is unknown, or if the cell was disturbed.
    """
    row = {**_settings(record), **UNKNOWN}
    measured = record.measurement
    if measured is not None:
        row |= _rates(record, measured) | _latencies(measured) | _facts(measured)
        row |= _work(record, measured, row)
        if measured.breakdown:
            row |= _breakdown(measured.breakdown)
        if measured.serving:
            row |= of_requests(measured.serving)
        if measured.generation:
            row |= of_generation(record.cell, measured.generation)
        if measured.target:
            row |= of_training(record, measured.target)
    if record.system:
        row |= _of_system(record, record.system)
    if measured is not None:
        row["disturbed"] = why_disturbed(record)
        every = list(remarks(record, row, about_numbers=row["disturbed"] is None))
        for kind in Kind:
            # An error of a library may have the characters that separate remarks.
            texts = [text.replace("; ", ", ") for of_kind, text in every if of_kind == kind]
            row[kind.value] = "; ".join(texts) or None
        if row["disturbed"]:
            row = without_numbers(row)
    return {name: clean(value) if isinstance(value, str) else value for name, value in row.items()}


def without_numbers(row: Row) -> Row:
    """Returns a copy of `row` in which all measured columns are None, except `NOT_NUMBERS`."""
    return row | {column: None for column in MEASURED if column not in NOT_NUMBERS}


def remarks_in(row: Row, kind: Kind) -> list[str]:
    """Returns the remarks of one kind in a row as a list. The row has them as one text, separated by `; `."""
    return str(row[kind]).split("; ") if row[kind] else []


def warnings_of(row: Row) -> list[str]:
    """The doubts about a row's numbers."""
    return remarks_in(row, Kind.doubt)


def phases_ms(row: Row) -> dict[Phase, float]:
    """Returns the milliseconds of each phase of a step. Empty if all phases are unknown or have measured times of 0."""
    # `framework`, the rest of the step, is negative if measuring slowed the phases down.
    values = {phase: row[f"breakdown_{phase}_ms"] for phase in Phase}
    lengths = {phase: max(0.0, value) for phase, value in values.items() if value is not None}
    return lengths if any(lengths.values()) else {}


def tails(row: Row, name: str) -> str:
    """Returns as text the known percentiles in the columns `<name>_p..._ms`, such as `p50 10.1 ms, p90 11.3 ms`."""
    times = {percent: number_of(row, f"{name}_p{percent}_ms") for percent in (50, 90, 99)}
    return ", ".join(
        f"p{percent} {significant(value)} ms" for percent, value in times.items() if value is not None
    )


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
allocator_library cudnn_benchmark disturbed warnings tips notes
"""
# `target_mlperf_s` and `target_airbench_s` are always empty: earlier releases had other clocks there.
_TO_TARGET = """
target_reached target_s target_low_s target_mlperf_s target_train_s target_airbench_s target_compile_s target_epochs
target_samples target_j target_cost target_tested target_budget_s
"""
_GENERATED = """
ttft_ms ttft_ms_low ttft_ms_high tpot_p50_ms tpot_p90_ms tpot_p99_ms
decode_tokens_per_s decode_tokens_per_s_low decode_tokens_per_s_high kv_cache_mb
"""
# Column -> the attribute of `Serving` that it shows. If the column's name ends in `_ms`, the unit is milliseconds.
_OF_SERVING = {
    "requests_per_s": "served_per_s",
    "offered_per_s": "offered_per_s",
    "num_requests": "num_requests",
    "num_errors": "num_errors",
    "miss_share_low": "miss_share_low",
    "miss_share_high": "miss_share_high",
    "busy_share": "busy_share",
    "queue_ms": "queue_s",
    "compute_ms": "compute_s",
    "late_p99_ms": "late_p99_s",
}
_REQUESTS = [
    *(name for name in _OF_SERVING if name != "compute_ms"),
    *(f"request_{name}_ms{end}" for name in ("p50", "p90", "p99", "p999") for end in ("", "_low", "_high")),
    "miss_share",
    "verdict",
    "mean_batch",
    "padded_share",
    "energy_j_per_request",
    "cost_per_million_requests",
]
MEASURED = [*_MEASURED.split(), *BREAKDOWN, *_REQUESTS, *_TO_TARGET.split(), *_GENERATED.split()]
UNKNOWN: Row = dict.fromkeys(MEASURED)


def _settings(record: Record) -> Row:
    cell, data = record.cell, record.data
    is_random = cell.data.name == RANDOM
    is_xla = cell.device in XLA and cell.engine in ON_TORCH
    has_images = not cell.model.batch and cell.model.library != Library.transformers
    return {
        "suite": cell.suite,
        "mode": cell.mode.value,
        "engine": cell.engine.value,
        "model": cell.model.name,
        "arguments": ", ".join(f"{name}={value_text(value)}" for name, value in cell.arguments) or None,
        "data": OWN_BATCHES if cell.model.batch else cell.data.name,
        "device": cell.device.value,
        **_declared(cell),
        "xla_processes": cell.xla_processes if is_xla else None,
        "weights": PurePath(cell.model.weights).name,
        "num_workers": cell.data.num_workers if cell.data.pipeline == Pipeline.jpeg else None,
        "input_shape": "x".join(map(str, cell.model.input_shape)) if is_random and has_images else None,
        "scaling": cell.scaling.value if cell.devices > 1 else None,
        "steps": cell.steps if cell.protocol == Protocol.steps else None,
        "status": record.status.value,
        "reason": record.reason,
        "cell_id": cell.id,
        "identity": record.identity[:8],
        "started_at": record.started_at,
        "wall_s": record.wall_s,
        "node": node_of(record.environment),
        "data_source": cell.model.batch or (data.source if data else None),
        "stand_in": data.stand_in if data else None,
    }


def _declared(cell: Cell) -> Row:
    """Returns the columns of settings. The value is None if the cell's protocol or mode does not use the setting."""
    unused = {f"server.{name}" for name in UNUSED[cell.protocol]}
    if cell.protocol != Protocol.target:
        unused.add("target")
    if cell.mode != Mode.generate:
        unused.add("generate")
    row: Row = {}
    for setting in DECLARED:
        is_unused = setting.path in unused or setting.path.partition(".")[0] in unused
        value = None if is_unused else setting.value(cell)
        row[setting.column] = getattr(value, "value", value)  # the word of an enumeration
    return row


def _rates(record: Record, measured: Measurement) -> Row:
    """Returns the columns of the throughput and of the time of the whole job.

    If whole epochs ran, the time of the job was measured. Otherwise, it is estimated from the throughput.
    """
    if not (rates := measured.steady_rates):
        return {}
    sample = Sample(rates)
    trains = record.cell.mode == Mode.train
    rate = sample.median
    time_s = None
    provenance = Provenance.measured if measured.epochs else Provenance.estimated
    if record.cell.protocol != Protocol.fit:
        num = measured.num_train_samples if trains else measured.num_test_samples
        if num is not None:
            num_passes = record.cell.epochs if trains else 1
            time_s = num * num_passes / rate
    elif measured.epochs:
        # Training runs all epochs. An inference job is one pass over the data; several passes were measured.
        seconds = [epoch.seconds for epoch in (measured.epochs if trains else measured.steady_epochs)]
        time_s = sum(seconds) if trains else order_statistics.median(seconds)
    return {
        **with_bounds("samples_per_s", rate, sample.percentile_interval(50)),
        "tokens_per_s": None if measured.tokens_per_sample is None else rate * measured.tokens_per_sample,
        "time_s": time_s,
        "time_provenance": None if time_s is None else provenance.value,
        "batch_size_per_device": record.cell.batch_size // measured.num_devices,
    }


def _latencies(measured: Measurement) -> Row:
    row: Row = {}
    latency = _ms(measured.latency_s)
    for percent in (50, 90, 99):
        value = latency.supported_percentile(percent)
        bounds = latency.percentile_interval(percent) if value is not None else None
        row |= with_bounds(f"latency_p{percent}_ms", value, bounds)
    if len(latency) >= order_statistics.NUM_SAMPLES_FOR[50]:
        row["num_outliers"] = latency.num_outliers
    # The computation is the step minus the wait for data and the copies. A part without times counts as 0.
    computed_ms = latency.values
    moves = {
        "data_wait_ms": measured.data_s,
        "copy_in_ms": measured.copy_in_s,
        "copy_out_ms": measured.copy_out_s,
    }
    for column, seconds in moves.items():
        if not seconds:
            continue
        part = _ms(seconds)
        row[column] = part.median
        if len(part) == len(latency):
            computed_ms = computed_ms - part.values
    if measured.launch_s:
        row["launch_p50_ms"] = _ms(measured.launch_s).median
    if len(latency):
        row["compute_ms"] = Sample(computed_ms).median
    if measured.data_s and measured.latency_s:
        row["data_wait_share"] = sum(measured.data_s) / sum(measured.latency_s)
    return row


def _ms(seconds: list[float]) -> Sample:
    return Sample(1000 * np.asarray(seconds, np.float64))


def _breakdown(breakdown: Breakdown) -> Row:
    """Returns the mean time of each phase. The sum of the phases is the mean wall time of the steps."""
    totals = [sum(step) for step in zip(*breakdown.phases_s.values(), strict=True)]
    row: Row = {
        f"breakdown_{phase}_ms": 1000 * fmean(seconds) for phase, seconds in breakdown.phases_s.items()
    }
    median = order_statistics.median
    return row | {"breakdown_disturbance": median(totals) / median(breakdown.undisturbed_s) - 1}


def _work(record: Record, measured: Measurement, row: Row) -> Row:
    """Returns the columns of the work of a step, and of the device's ceiling (peak rate).

    The column `bound` is `data` if the wait for data takes more than half of a step. It is `copy` if the copies take
    that long. Otherwise, it is the resource of the device with the longest minimum time.
    """
    work = measured.work
    cell = record.cell
    speed = row["samples_per_s"]
    if work is None:
        return {}
    batch = step_size(cell, measured)
    of_step: Row = {
        "flops_per_sample": _divided(work.flops, batch),
        "bytes_per_sample": _divided(work.bytes, batch),
        "num_operators": work.num_operators,
    }
    if speed is None:
        return of_step
    num_batches = cell.keras.steps_per_execution if cell.keras else 1  # batches in one timed step
    half_ms = 1000 * num_batches * batch / speed / 2
    rate = flops_per_s(cell, measured)
    ceilings = ceilings_of_cell(ceilings_in(record.environment), cell, measured.num_devices)
    ceiling = ceilings.ceiling_of(cell.precision) if ceilings else None
    of_step |= {"flops_per_s": rate, "ceiling_flops_per_s": ceiling}
    if rate and ceiling:  # a network that only waits has no operations, so no share
        of_step["mfu"] = rate / ceiling
    # If operators are compiled or launched together, the step's bytes and launches are unknown. Engines that are not
    # `ON_TORCH` compile whole steps.
    compiles = cell.options.compile or cell.device in XLA or cell.engine not in ON_TORCH
    is_fused = compiles or cell.options.cuda_graphs
    data_ms, copy_in_ms, copy_out_ms = (row[f"{part}_ms"] for part in ("data_wait", "copy_in", "copy_out"))
    if data_ms is not None and data_ms > half_ms:
        of_step["bound"] = Bound.data.value
    elif copy_in_ms is not None and copy_in_ms + (copy_out_ms or 0.0) > half_ms:
        of_step["bound"] = Bound.copy.value
    elif work.flops and rate and not is_fused:
        longest = bound(work, work.flops / rate, ceilings, cell.precision)
        of_step["bound"] = longest.value if longest else None
    return of_step


def bound(work: Work, seconds: float, ceilings: Ceilings | None, precision: str) -> Bound | None:
    """Returns the resource that bounds a step which took `seconds`. Returns None if operations or ceiling are unknown.

    For every resource, the ceiling gives a minimum time of the step. The resource with the longest minimum time bounds
    the step. If the minimum time for memory or for launches is longer than `seconds`, it must be wrong, and is ignored.
    """
    ceiling = ceilings.ceiling_of(precision) if ceilings else None
    if work.flops is None or ceilings is None or ceiling is None:
        return None
    least = {Bound.compute: work.flops / ceiling}
    if work.bytes is not None:
        least[Bound.memory] = work.bytes / ceilings.memory_bytes_per_s
    if work.num_operators is not None:
        least[Bound.launch] = work.num_operators * ceilings.launch_s
    possible = {word: time_s for word, time_s in least.items() if word == Bound.compute or time_s <= seconds}
    return max(possible, key=possible.__getitem__)


def _facts(measured: Measurement) -> Row:
    evaluation = measured.evaluation
    answers = measured.answers
    busiest = measured.operators[:MAX_OPERATORS]
    operators = [f"{part.name} x{part.num_calls} {100 * part.share:.0f} %" for part in busiest]
    # The first epoch's evaluation includes compilation. It is left out if there are further epochs.
    evaluations_s = [epoch.evaluation.seconds for epoch in measured.steady_epochs if epoch.evaluation]
    row: Row = {
        **{name: getattr(measured, name) for name in _FACTS.split()},
        "num_blocks": len(measured.blocks) or None,
        "num_steps": sum(block.num_steps for block in measured.blocks) or None,
        "stopped": measured.stop.value if measured.stop else None,
        "num_warmup_steps": measured.num_warmup_steps or None,
        "artifact_mb": _divided(measured.artifact_bytes, MB),
        "num_fallbacks": None if measured.fallbacks is None else len(measured.fallbacks),
        "peak_device_mb": _divided(measured.peak_device_bytes, MB),
        "accuracy": evaluation.accuracy if evaluation else None,
        # A window has no loss here: the loss of its last batch depends on the number of steps, and shows no learning.
        "loss": measured.epochs[-1].loss if measured.epochs else None,
        "train_accuracy": measured.epochs[-1].accuracy if measured.epochs else None,
        "busiest_operators": ", ".join(operators) or None,
        "test_loss": evaluation.loss if evaluation else None,
        "evaluation_s": order_statistics.median(evaluations_s) if evaluations_s else None,
    }
    if answers is not None:
        num = answers.num_samples
        # Images that only the reference got right.
        num_lost = answers.num_fp32_right - (answers.num_right - answers.num_won)
        change = (answers.num_right - answers.num_fp32_right) / num
        row |= {"accuracy": answers.num_right / num, "fp32_accuracy": answers.num_fp32_right / num}
        row |= with_bounds("accuracy_change", change, share_difference(num, answers.num_won, num_lost))
    return row


def of_training(record: Record, training: TargetTraining) -> Row:
    """Returns the columns. If the target was missed, they contain the time spent, not the time to the target."""
    row: Row = {"target_reached": training.hit is not None, "target_tested": training.tested}
    row["target_compile_s"] = training.compile_s
    if training.hit is None:
        return row | {"target_budget_s": training.evaluations[-1].ended_s}
    hit = training.evaluations[training.hit]
    before = [part for part in training.log if part.ended_s <= hit.ended_s]
    is_passage = record.cell.target.definition == Definition.passage
    began_boot_s = record.system.started_boot_s if record.system else None  # the start of the process
    joules = None
    if began_boot_s is not None:
        joules = joules_within(record, [(began_boot_s, began_boot_s + hit.ended_s)])
    return row | {
        "target_s": hit.ended_s,
        "target_low_s": earliest_hit_s(training) if is_passage else None,
        "target_train_s": sum(part.seconds for part in before if part.span == Span.train),
        "target_epochs": hit.epochs,
        "target_samples": hit.num_samples,
        "target_j": joules,
    }


def of_generation(cell: Cell, measured: Generation) -> Row:
    """Returns the columns of generated text. Medians are computed over generations, percentiles over decode steps."""
    # Steps of one generation resemble each other. An interval over steps would be too narrow.
    first_ms = _ms(measured.prefill_s)
    steps = _ms([seconds for generation in measured.decode_s for seconds in generation])
    has_enough = len(measured.decode_s) >= order_statistics.NUM_SAMPLES_FOR[50]
    rates = Sample([cell.batch_size * len(steps_s) / sum(steps_s) for steps_s in measured.decode_s])
    row: Row = {f"tpot_p{p}_ms": steps.supported_percentile(p) if has_enough else None for p in (50, 90, 99)}
    for column, sample in (("ttft_ms", first_ms), ("decode_tokens_per_s", rates)):
        row |= with_bounds(column, sample.median, sample.percentile_interval(50))
    return row | {"kv_cache_mb": measured.cache_bytes / MB}


def _of_system(record: Record, system: SystemSeries) -> Row:
    measured = record.measurement
    steady = measured.steady_boot_s if measured else None
    row: Row = {column: system.mean(name, steady) for column, name in SERIES.items()}
    if steady:
        row["gpu_power_w"] = system.mean("gpu_0_power_w", (steady[0] + POWER_AVERAGED_S, steady[1]))
    row["peak_host_mb"] = _divided(system.peak_host_bytes, MB)
    of_kernel = system.mean("cpu_system_percent", steady)
    whole = row["cpu_utilization_percent"]
    if of_kernel is not None and whole:
        row["system_time_share"] = of_kernel / whole
    if measured is not None:
        joules = joules_per_sample(record, measured)
        if (
            joules is not None
            and (served := measured.serving)
            and (num := round(served.served_per_s * served.duration_s))
        ):
            row["energy_j_per_request"] = joules * (measured.num_steady_samples or 0) / num
        row["energy_j_per_sample"] = joules if measured.blocks or not measured.serving else None
        row["energy_provenance"] = None if joules is None else Provenance.measured.value
    return row


def _divided(value: float | None, divisor: float) -> float | None:
    return None if value is None else value / divisor


def of_requests(serving: Serving) -> Row:
    """Returns the column `compute_ms`, and all `_REQUESTS` except the energy and the cost of a request."""
    num_filled = sum(int(size) * num for size, num in serving.batches.items())
    num_batches = sum(serving.batches.values())
    missed = serving.num_missed
    row: Row = {name: _shown(name, getattr(serving, attribute)) for name, attribute in _OF_SERVING.items()}
    row["miss_share"] = None if missed is None else missed / serving.num_requests
    row["verdict"] = serving.verdict.value if serving.verdict else None
    row["mean_batch"] = num_filled / num_batches if num_batches else None
    row["padded_share"] = serving.num_padded / (num_filled + serving.num_padded) if num_filled else None
    for quantile in serving.latencies:
        name = f"request_p{quantile.percentile:g}_ms".replace(".", "")
        bounds_ms = _shown(name, quantile.low), _shown(name, quantile.high)
        row |= with_bounds(name, _shown(name, quantile.seconds), bounds_ms)
    return row


def _shown(name: str, value: float | None) -> float | None:
    return 1000 * value if value is not None and name.endswith("_ms") else value


def limit_text(row: Row) -> str:
    """The limit of `protocol=server`, such as `p99 at most 50 ms`."""
    return f"p{row['limit_percentile']:g} at most {row['limit_ms']:g} ms"


def served_text(row: Row) -> str:
    """Returns the result of a cell in words, such as `50 requests/s, p99 23.1 ms, sure pass: p99 at most 50 ms`.

    `sure pass` is a value of `cell.Verdict`. For a training to a target, the words say how the training ended. If the
    cell neither served requests nor trained to a target, the text is empty.
    """
    if row["target_reached"]:
        took = f"{significant(row['target_s'])} s, {significant(row['target_epochs'])} epochs"
        return f"target reached in validation after {took}"
    if row["target_reached"] is not None:
        return f"target not reached in validation after {significant(row['target_budget_s'])} s"
    words = []
    if row["requests_per_s"] is not None:
        words.append(f"{significant(row['requests_per_s'])} requests/s")
    if row["request_p99_ms"] is not None:
        words.append(f"p99 {significant(row['request_p99_ms'])} ms")
    if row["verdict"]:
        words.append(f"{row['verdict']}: {limit_text(row)}")
    if row["verdict"] == Verdict.unknown:
        shares = [row[f"miss_share{bound}"] or 0.0 for bound in ("", "_low", "_high")]
        share, low, high = (significant(round(100 * share, 3), 2) for share in shares)
        words.append(f"{share} % of requests missed it ({low} to {high} % may)")
    return ", ".join(words)
