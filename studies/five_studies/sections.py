"""What the five studies add to the report: their published numbers beside ours, and their pictures redrawn."""

from collections.abc import Callable, Iterator

from matplotlib.figure import Figure

from accelbench.report.extension import Addition
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.table import Table
from accelbench.schema.vocab import Device, Mode
from five_studies import load, pictures, published, speedups, steps, times, times_picture, training
from five_studies.comparison import compare_with_published, equal_on, gain_over

# File name of a picture, what it shows, and the picture; None if there is nothing to draw.
Drawn = Iterator[tuple[str, str, Figure | None]]


def of_suite(sweep: Sweep, warning: str) -> Addition:
    """The study's part of a suite's section; `warning`, which may be empty, stands on each picture."""
    tables = (
        *(times.table(sweep, mode) for mode in Mode),
        speedups.headlines(sweep),
        speedups.table(sweep),
        *(steps.table(sweep, metric) for metric in steps.METRICS),
        load.table(sweep),
        training.quality(sweep),
        training.one_epoch(sweep),
        training.preparation(sweep),
    )
    drawn = [*_common(sweep, warning), *_of_study(sweep, warning)]
    return Addition(
        caveats=published.caveats(sweep.study),
        tables=[table for table in tables if table],
        pictures=[(name, what, figure) for name, what, figure in drawn if figure],
    )


def of_page() -> list[Table]:
    """What was wrong with the studies."""
    return [published.known_errors_table()]


def _common(sweep: Sweep, warning: str) -> Drawn:
    comparisons = [compared for mode in Mode for compared in compare_with_published(sweep, mode)]
    figure = times_picture.times(comparisons, f"Time per network and device, {sweep.suite}", warning)
    yield "times", "Training and testing time", figure
    learning = "Accuracy and loss per epoch"
    yield "curves", learning, pictures.curves(sweep, f"{learning}, {sweep.suite}", warning)


def _of_study(sweep: Sweep, warning: str) -> Drawn:
    if sweep.study == "000":
        yield from _by_family(sweep, warning)
    if sweep.study == "003":
        for number, model in enumerate(dict.fromkeys(reported.cell.model.name for reported in sweep.cells)):
            cells = [reported for reported in sweep.cells if reported.cell.model.name == model]
            what = f"Latency, throughput and speed-up of {model}"
            title = f"{model}: inference by batch, {sweep.suite}"
            yield f"dashboard_{number}", what, pictures.dashboard(cells, title, warning)


def _by_family(sweep: Sweep, warning: str) -> Drawn:
    """Study 000's bars by family of networks, precision and batch."""

    def over(device: Device) -> Callable[[ReportedCell], float | None]:
        return lambda reported: gain_over(device, reported, sweep.cells, "samples_per_s")

    def gpu_over_tpu(reported: ReportedCell) -> float | None:
        return over(Device.tpu)(reported) if reported.cell.device == Device.gpu else None

    def of(column: str) -> Callable[[ReportedCell], float | None]:
        return lambda reported: reported.number(column)

    compared_with = {"speedups": Device.cpu, "gpu_over_tpu": Device.tpu}

    def is_doubtful(kind: str) -> Callable[[ReportedCell], bool]:
        if kind not in compared_with:
            return pictures.has_warnings
        return lambda reported: any(
            map(pictures.has_warnings, (reported, equal_on(compared_with[kind], reported, sweep.cells)))
        )

    for kind, what, unit, value in (
        ("families", "Throughput by family", "images/s", of("samples_per_s")),
        ("speedups", "Speed-up over the CPU, throughput", "x", over(Device.cpu)),
        ("gpu_over_tpu", "Speed-up of the GPU over the TPU, throughput", "x", gpu_over_tpu),
        ("utilisation", "Utilisation of the device", "%", load.utilisation_percent),
        ("power", "Power of the GPU", "W", of("gpu_power_w")),
        ("temperature", "Temperature of the GPU", "°C", of("gpu_temperature_c")),
        ("clock", "Clock of the GPU", "MHz", of("gpu_clock_mhz")),
        ("memory", "Peak memory of the device", "MB", of("peak_device_mb")),
        ("communication", "Copying to the device and back", "% of a step", steps.communication_percent),
    ):
        title = f"{what}, {sweep.suite}"
        yield kind, what, pictures.families(sweep.cells, value, unit, title, warning, is_doubtful(kind))
