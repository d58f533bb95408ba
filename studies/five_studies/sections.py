"""What the five studies add to the report: their published numbers beside ours, and their pictures redrawn."""

from collections.abc import Iterator
from functools import partial

from matplotlib.figure import Figure

from accelbench.answers.cells import MeasuredCell
from accelbench.report.extension import Addition
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Table
from accelbench.schema.vocab import Device, Mode
from five_studies import pictures, published, speedups, steps, times, training
from five_studies.comparison import compare_with_published, equal_on, ratio

# File name of a picture, what it shows, and the picture; None if there is nothing to draw.
Drawn = Iterator[tuple[str, str, Figure | None]]


def of_suite(sweep: Sweep, warning: str) -> Addition:
    """The study's part of a suite's section; `warning`, which may be empty, stands on each picture."""
    tables = (
        *(times.table(sweep, mode) for mode in Mode),
        speedups.headlines(sweep),
        speedups.table(sweep),
        *(steps.table(sweep, metric) for metric in steps.METRICS),
        steps.load_table(sweep),
        training.quality(sweep),
        training.one_epoch(sweep),
        training.preparation(sweep),
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

    def over(base: Device, reported: MeasuredCell) -> float | None:
        return ratio(reported, equal_on(base, reported, sweep.cells))

    columns = {
        ("families", "Throughput by family", "images/s"): lambda each: each.number("samples_per_s"),
        ("speedups", "Speed-up over the CPU, throughput", "x"): lambda each: over(Device.cpu, each),
        ("gpu_over_tpu", "Speed-up of the GPU over the TPU, throughput", "x"): lambda each: (
            over(Device.tpu, each) if each.cell.device == Device.gpu else None
        ),
        ("utilisation", "Utilisation of the device", "%"): steps.utilisation_percent,
        ("power", "Power of the GPU", "W"): lambda each: each.number("gpu_power_w"),
        ("temperature", "Temperature of the GPU", "°C"): lambda each: each.number("gpu_temperature_c"),
        ("clock", "Clock of the GPU", "MHz"): lambda each: each.number("gpu_clock_mhz"),
        ("memory", "Peak memory of the device", "MB"): lambda each: each.number("peak_device_mb"),
        ("communication", "Copying to the device and back", "% of a step"): steps.communication_percent,
    }
    bases = {"speedups": Device.cpu, "gpu_over_tpu": Device.tpu}

    def is_doubtful(base: Device | None, each: MeasuredCell) -> bool:
        return any(map(pictures.has_warnings, (each, equal_on(base, each, sweep.cells) if base else None)))

    for (kind, what, unit), value in columns.items():
        title, doubtful = f"{what}, {sweep.suite}", partial(is_doubtful, bases.get(kind))
        yield kind, what, pictures.families(sweep.cells, value, unit, title, warning, doubtful)
