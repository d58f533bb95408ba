"""What the five studies add to the report: their published numbers beside ours, and their pictures redrawn."""

from collections.abc import Collection, Iterator, Sequence

from matplotlib.figure import Figure

from accelbench.answers.cells import MeasuredCell
from accelbench.report.extension import Addition
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Table
from accelbench.schema.vocab import Device, Mode
from five_studies import batches, devices, pictures, power, published, speedups, steps, times, training
from five_studies.comparison import compare_with_published, equal_on, ratio
from five_studies.headline import headline as headline

# File name of a picture, what it shows, and the picture; None if there is nothing to draw.
Drawn = Iterator[tuple[str, str, Figure | None]]

# Study 000's other figures, by family of networks: name of the file, what it shows, unit, and a cell's value.
LOADS: Sequence[tuple[str, str, str, pictures.Value]] = (
    ("utilisation", "Utilisation of the device by family", "%", steps.utilisation_percent),
    ("memory", "Memory of the device by family", "MB", lambda each: each.number("peak_device_mb")),
    ("power", "Power of the GPU by family", "W", lambda each: each.number("gpu_power_w")),
    ("copying", "Share of copying by family", "%", steps.communication_percent),
)


def of_suite(sweep: Sweep, warning: str) -> Addition:
    """The study's part of a suite's section; `warning`, which may be empty, stands on each picture."""
    tables = (
        *(times.table(sweep, mode) for mode in Mode),
        devices.order(sweep),
        speedups.headlines(sweep),
        speedups.like_for_like(sweep),
        speedups.table(sweep),
        batches.table(sweep),
        *(steps.table(sweep, metric) for metric in steps.METRICS),
        steps.load_table(sweep),
        power.table(sweep),
        power.num_steps_table(sweep),
        training.quality(sweep),
        training.one_epoch(sweep),
        training.by_size(sweep),
        devices.table(sweep),
    )
    return Addition(
        caveats=published.caveats(sweep.study),
        tables=[table for table in tables if table],
        pictures=[(name, what, figure) for name, what, figure in _drawn(sweep, warning) if figure],
    )


def of_page() -> list[Table]:
    """What was wrong with the studies."""
    return [published.known_errors_table()]


def _drawn(sweep: Sweep, warning: str) -> Drawn:
    comparisons = [compared for mode in Mode for compared in compare_with_published(sweep, mode)]
    figure = times.picture(comparisons, f"Time per network and device, {sweep.suite}", warning)
    yield "times", "Training and testing time", figure
    learning = "Accuracy and loss per epoch"
    yield "curves", learning, pictures.curves(sweep, f"{learning}, {sweep.suite}", warning)
    if sweep.study == "000":
        yield from _by_family(sweep, warning)
    if sweep.study == "003":
        for number, model in enumerate(dict.fromkeys(reported.cell.model.name for reported in sweep.cells)):
            cells = [reported for reported in sweep.cells if reported.cell.model.name == model]
            what = f"Latency, throughput and speed-up of {model}"
            title = f"{model}: inference by batch, {sweep.suite}"
            yield f"dashboard_{number}", what, pictures.dashboard(cells, title, warning)


def _by_family(sweep: Sweep, warning: str) -> Drawn:
    what = "Throughput by family"
    title = f"{what}, {sweep.suite}"
    yield "families", what, pictures.families(sweep.cells, lambda each: each.speed, "images/s", title, warning)
    for name, what, unit, value in LOADS:
        title = f"{what}, {sweep.suite}"
        yield name, what, pictures.families(sweep.cells, value, unit, title, warning)
    what = "Speed-up over the CPU, throughput"
    yield "speedups", what, _speedups(sweep, tuple(Device), Device.cpu, f"{what}, {sweep.suite}", warning)
    what = "Speed-up of the GPU over the TPU, throughput"
    yield "gpu_over_tpu", what, _speedups(sweep, (Device.gpu,), Device.tpu, f"{what}, {sweep.suite}", warning)


def _speedups(sweep: Sweep, devices: Collection[Device], base: Device, title: str, warning: str) -> Figure | None:
    """The speed of each cell on `devices` over that of an equal one on `base`; a doubtful base makes it doubtful."""

    def over(each: MeasuredCell) -> float | None:
        return ratio(each, equal_on(base, each, sweep.cells)) if each.cell.device in devices else None

    def is_doubtful(each: MeasuredCell) -> bool:
        return any(map(pictures.has_warnings, (each, equal_on(base, each, sweep.cells))))

    return pictures.families(sweep.cells, over, "x", title, warning, is_doubtful)
