"""`accelbench doctor` and `selfcheck`: what this machine can do, and the smallest difference that it can detect."""

import functools
import io
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from accelbench import lock
from accelbench.answers.cells import MIN_PROCESSES, Process
from accelbench.answers.sureness import CONFIDENCE, MARGIN, compare_processes
from accelbench.devices.registry import DeviceReport, look
from accelbench.errors import UserError
from accelbench.grid import support
from accelbench.grid.fingerprint import fingerprint
from accelbench.isolation.hosts import Hosts
from accelbench.judging.verdict import is_allowed
from accelbench.presentation import duration, say, significant
from accelbench.project import Workplace, shown, workplace
from accelbench.schema.ceilings import TRUE_PRECISIONS, read_ceilings
from accelbench.schema.cell import (
    STEP_MODES,
    Cell,
    DataSpec,
    Device,
    Engine,
    KerasSettings,
    Mode,
    ModelSpec,
    Precision,
    Protocol,
)
from accelbench.settings.compose import one_cell
from accelbench.settings.config import SweepOptions
from accelbench.stats.intervals import student_quantile
from accelbench.sweep import run as sweep
from accelbench.sweep.interleaved import shuffled_runs
from accelbench.sweep.prober import PROBING_ENGINE, Prober, Quiet

GB = 1e9  # bytes
FOOT = "* only in one mode (train, infer): accelbench doctor --all"
NOT_PROBED = "not probed yet: the first cell that runs on a device probes the device"
Rows = Iterator[tuple[str, str]]


def show(place: Workplace, console: Console, *, probe: bool = False, whole: bool = False) -> None:
    """Prints what this machine has and can do. If `whole`, also versions, and what is skipped.

    If `probe`, measures the ceilings of the devices first. These are the highest speeds that a probe reaches.
    """
    present = [report for report in map(look, Device) if report.present]
    if probe:
        tell = functools.partial(console.print, markup=False)
        with lock.hold_measuring(tell), Hosts() as hosts:
            quiet = Quiet(0.0 if is_allowed() else SweepOptions.quiet_s, tell)
            prober = Prober(hosts, place.cache, fingerprint(PROBING_ENGINE), tell, quiet=quiet)
            for report in present:
                prober.probe(_plain_cell(report.device), TRUE_PRECISIONS)
    sections = {
        "Devices": _devices(),
        "Engines and their precisions": _engines(present),
        "Peak rates": _ceilings(place),
    }
    if whole:
        machine = fingerprint()
        versions = {"python": machine["machine"]["python"], **machine["versions"]}
        sections |= {"Versions": iter(versions.items()), "Skipped": _skipped(present)}
    for title, rows in sections.items():
        table = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2, 0, 0))
        for name, text in rows:
            table.add_row(name, Text(text))
        if whole:
            console.print(Text(title, "bold"))
        console.print(table)
    console.print(Text(FOOT, "dim"))


def _plain_cell(
    device: Device,
    engine: Engine = Engine.pytorch,
    precision: Precision = Precision.fp32,
    mode: Mode = Mode.infer,
) -> Cell:
    """Returns a small cell with these settings, to ask what a device supports."""
    return Cell(
        suite="",
        engine=engine,
        device=device,
        model=ModelSpec(name="mlp"),
        data=DataSpec(name=""),
        mode=mode,
        precision=precision,
        batch_size=1,
        protocol=Protocol.window,
        epochs=1,
        keras=KerasSettings() if engine == Engine.keras else None,
    )


def _devices() -> Rows:
    for report in map(look, Device):
        if not report.present:
            yield report.device, f"not here: {report.reason}"
            continue
        words = [f"{report.count} x {report.name}" if report.count > 1 else report.name]
        if report.memory_bytes is not None:
            words.append(f"memory {report.memory_bytes / GB:.1f} GB")
        words += [f"{key.replace('_', ' ')} {value}" for key, value in report.details.items()]
        yield report.device, ", ".join(words)


def _reasons(engine: Engine, report: DeviceReport, precision: Precision) -> list[str | None]:
    """Returns for each of `STEP_MODES` why the engine can't run in this precision on the device, or None if it can."""
    cells = [_plain_cell(report.device, engine, precision, mode) for mode in STEP_MODES]
    return [support.why_not(cell, report) for cell in cells]


def _engines(present: Sequence[DeviceReport]) -> Rows:
    for engine in Engine:
        texts = []
        for report in present:
            words = []
            for precision in Precision:
                reasons = _reasons(engine, report, precision)
                if None in reasons:
                    words.append(f"{precision}*" if any(reasons) else precision)
            if words:
                texts.append(f"{report.device}: {', '.join(words)}")
        why_not = support.why_not(_plain_cell(Device.cpu, engine), look(Device.cpu))
        yield engine, "; ".join(texts) or f"no: {why_not}"


def _skipped(present: Sequence[DeviceReport]) -> Rows:
    for report, precision in itertools.product(present, Precision):
        for mode, reason in zip(STEP_MODES, _reasons(Engine.pytorch, report, precision), strict=True):
            if reason is not None:
                yield f"{report.device} {precision} {mode}", reason


def _ceilings(place: Workplace) -> Rows:
    ceilings_of = read_ceilings(place.cache, fingerprint(PROBING_ENGINE))
    if not ceilings_of:
        yield "peak rates", NOT_PROBED
    for device, ceilings in ceilings_of.items():
        rates = [f"{precision} {significant(rate / GB)}" for precision, rate in ceilings.flops_per_s.items()]
        yield f"{device} peak", f"{', '.join(rates)} GFLOP/s (int8: GOP/s)"
        memory = significant(ceilings.memory_bytes_per_s / GB)
        yield "", f"memory {memory} GB/s, a launch {significant(ceilings.launch_s * 1e6)} us"


FOLDER = "selfcheck"  # folder of the records; reports and trackers read only the folders of sweeps
# Its steps take tenths of a millisecond, which allocator and scheduler disturb.
CELL = (
    "model=mlp 'model.input_shape=[28,28]' batch_size=64 device=cpu mode=infer data=random tracking=none "
    "breakdown_s=0 window.warmup_s=0.1 window.measure_s=0.25 window.block_s=0.05 window.latency_s=0.02"
)
NUM_ROUNDS = 10  # rounds of two processes
# A difference of this many half widths is outside the interval in 80 % of cases: 1 + 0.84 / 1.96, from the normal
# distribution's quantiles at 80 % and 97.5 %.
POWER_WIDTHS = 1.43


def selfcheck(budget_s: float, console: Console, hosts: Hosts) -> int:
    """Measures the cell in rounds of two processes, for at most `budget_s` seconds. Prints the result. Returns 0.

    Raises UserError if there was too little time, or if too many processes failed.
    """
    cell, options = one_cell(CELL)
    runs = shuffled_runs(cell, cell, NUM_ROUNDS, seed=0)
    options = replace(options, ends_after_s=budget_s)
    folder = workplace().cache / FOLDER / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    say(console, f"Comparing a cell with an identical copy of itself, for at most {duration(budget_s)} ...")
    quiet = Console(file=io.StringIO())  # the speeds of single processes are not shown
    result = sweep.run(runs.cells, options, quiet, folder, hosts=hosts, show=lambda result: None)
    sides = (list(map(Process.of, side)) for side in runs.sides(result.records))
    say(console, f"\n{detectable(*sides)}\nRecords: {shown(folder)}")
    return 0


def detectable(first: Sequence[Process], second: Sequence[Process]) -> str:
    """Compares two sets of processes that ran the same cell. Returns the smallest slow-downs that can be detected.

    Raises UserError if too few processes were measured.
    """
    ratio = compare_processes(first, second)
    num = min(ratio.num_first, ratio.num_second)
    if ratio.low is None or ratio.high is None:
        problem = f"{num} processes of a copy were measured, but {MIN_PROCESSES} are needed"
        for process in [*first, *second]:
            if not process.rates:
                raise UserError(
                    f"{problem}. One ended as {process.outcome}: {process.reason or 'see its record'}"
                )
        raise UserError(f"--budget: {problem}: set a longer time")
    width = math.log(ratio.high / ratio.low) / 2
    lines = []
    for fewer in dict.fromkeys((MIN_PROCESSES, num)):
        # The width with fewer processes, from the spread of all. That of the first five would be known too roughly.
        wider = _width(fewer) / _width(num) * width
        slowdown = max(MARGIN, -math.expm1(-POWER_WIDTHS * wider))  # a smaller slow-down counts as none
        lines.append(
            f"With {fewer} processes a setting, 4 of 5 comparisons here detect a slow-down of {100 * slowdown:.1f} %."
        )
    apart = f"{100 * (ratio.low - 1):+.1f} to {100 * (ratio.high - 1):+.1f} %"
    return "\n".join([*lines, f"The two copies differ by {apart}."])


def _width(num: int) -> float:
    """Returns the half width of an interval from `num` processes a side, in standard deviations of a process."""
    return student_quantile(2 * num - 2, CONFIDENCE) * math.sqrt(2 / num)
