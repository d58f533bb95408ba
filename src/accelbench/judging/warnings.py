"""What a reader of a cell's numbers should know, as far as its record shows it."""

from collections.abc import Iterator

from accelbench.schema.conditions import SystemSeries
from accelbench.schema.measurement import Measurement
from accelbench.schema.record import Record, Row
from accelbench.schema.vocab import Mode, Protocol, Stop
from accelbench.stats import robust

# Beyond this much of one core, other processes are said to have disturbed the measurement; the sampler and the
# kernel's own threads stay well below.
MAX_OTHERS_PERCENT = 10.0
# Intervals of the throughput wider than this share of it, to either side, mark the cell as noisy.
NOISY = 0.05
# Shares beyond which a change of speed, outliers among the steps and a drifting clock are told.
MAX_CHANGE = 0.05
MAX_OUTLIERS = 0.05
MAX_CLOCK_DRIFT = 1e-3


def doubts(record: Record, row: Row) -> list[str]:
    """A sentence for each doubt about the numbers of `row`, none where there is none."""
    measured = record.measurement
    assert measured is not None
    return [
        *_of_blocks(record, measured),
        *_of_steps(measured),
        *_of_work(measured),
        *_of_machine(record, row),
        *_throttled(record, measured),
    ]


def _of_blocks(record: Record, measured: Measurement) -> Iterator[str]:
    blocks, window = measured.blocks, record.cell.window
    if 0 < len(blocks) < robust.NUM_SAMPLES_FOR[50]:
        yield f"only {len(blocks)} blocks were measured"
    short = sum(block.seconds < window.block_s for block in blocks) * (record.cell.protocol == Protocol.window)
    if short:
        yield f"{short} of {len(blocks)} blocks are shorter than {window.block_s:g} s: the speed was unsteady"
    rates = [block.num_samples / block.seconds for block in blocks]
    width = robust.half_width(rates)
    if width is not None and width > NOISY:
        ended = {Stop.noisy: ", and more of them would not help", Stop.limit: " when the time was up"}
        yield f"noisy: samples/s are known to {width:.0%} only{ended.get(measured.stop, '') if measured.stop else ''}"
    changed = robust.change(rates) if rates else 0.0
    if abs(changed) > MAX_CHANGE:
        yield f"the speed changed by {changed:+.0%} while it was measured"
    if len(measured.epochs) == 1 and record.cell.mode == Mode.train:
        yield "one epoch alone: its rate holds the first steps, and what was compiled in them"


def _of_steps(measured: Measurement) -> Iterator[str]:
    if measured.settled is False:
        yield f"step times had not settled after {measured.warmup_total_s:.1f} s of warm-up"
    num = len(measured.latency_s)
    outliers = robust.num_outliers(measured.latency_s) if num >= robust.NUM_SAMPLES_FOR[90] else 0
    if outliers > MAX_OUTLIERS * num:
        yield f"{outliers} of {num} steps are outliers"
    if measured.clock_drift is not None and abs(measured.clock_drift) > MAX_CLOCK_DRIFT:
        yield f"the clock ran {measured.clock_drift:+.2%} against the machine's raw one"


def _of_work(measured: Measurement) -> Iterator[str]:
    if measured.work is not None and measured.work.uncounted:
        yield f"its operations can't be counted: {', '.join(measured.work.uncounted)}"


def _of_machine(record: Record, row: Row) -> Iterator[str]:
    others = row["other_cpu_utilization_percent"]
    if isinstance(others, float) and others > MAX_OTHERS_PERCENT:
        yield f"other processes used {others:.0f} % of a core meanwhile"
    assert record.measurement is not None
    each, cores = record.measurement.threads, record.environment.get("machine", {}).get("num_threads")
    threads = None if each is None else each * record.cell.num_processes
    if threads is not None and cores is not None and threads < cores:
        yield f"{threads} threads on {cores} cores"


def _throttled(record: Record, measured: Measurement) -> Iterator[str]:
    """What slowed the machine down on purpose while it was measured."""
    system, steady = record.system, measured.steady_boot_s
    if system is None or steady is None:
        return
    quota = _within(system, "cpu_quota_throttled_s", steady)  # a counter that only grows
    if quota and quota[-1] > quota[0]:
        yield f"its quota of the CPU was used up for {quota[-1] - quota[0]:.1f} s"
    heat = _within(system, "cpu_thermal_throttles", steady)  # another
    if heat and heat[-1] > heat[0]:
        yield f"the CPU's temperature slowed it down {heat[-1] - heat[0]:.0f} times"
    for index in range(measured.num_devices):
        gpu = _within(system, f"gpu_{index}_throttled", steady)
        if any(gpu):
            which, samples = f"GPU {index}" if index else "the GPU", f"{sum(gpu):.0f} of {len(gpu)} samples"
            yield f"{which} was slowed down by its temperature or its power supply in {samples}"


def _within(system: SystemSeries, name: str, steady_boot_s: tuple[float, float]) -> list[float]:
    """A series' known values in the steady state."""
    started = system.started_boot_s or 0.0
    return [
        value
        for t_s, value in zip(system.t_s, system.values.get(name, []), strict=False)
        if value is not None and steady_boot_s[0] <= started + t_s <= steady_boot_s[1]
    ]
