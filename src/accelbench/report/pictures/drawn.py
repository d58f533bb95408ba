"""The pictures of one suite: those that any suite may have, and those that its study had."""

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from accelbench.report.pictures import by_batch, phases, race, roofline, studies, study_summary, times
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.study_comparison import compare_with_published, equal_on, gain_over
from accelbench.report.tables import device_load, study_steps
from accelbench.schema.vocab import Device, Mode

# File name of a picture -> what it shows, and the picture (None if there is nothing to draw).
Drawn = dict[str, tuple[str, Figure | None]]


def pictures_of(sweep: Sweep, warning: str) -> Drawn:
    """The pictures of a suite.

    Args:
        sweep: the suite's.
        warning: shown on each picture; empty for none.
    """
    return {**_common(sweep, warning), **STUDY_PICTURES.get(sweep.study or "", _by_batch)(sweep, warning)}


def _common(sweep: Sweep, warning: str) -> Drawn:
    """The pictures that any suite may have."""
    comparisons = [compared for mode in Mode for compared in compare_with_published(sweep, mode)]
    name = sweep.suite
    learning, ceiling = "Accuracy and loss per epoch", "How near each cell comes to its device's ceiling"
    step = "Where a step's time goes"
    search = "The search: every process, and when cells dropped out"
    drawn: Drawn = {
        "race": (search, race.race(sweep.race, f"{search}, {name}", warning) if sweep.race else None),
        "curves": (learning, studies.curves(sweep, f"{learning}, {name}", warning)),
        "roofline": (ceiling, roofline.roofline(sweep.cells, f"{ceiling}, {name}", warning)),
        "breakdown": (step, phases.phases(sweep.cells, f"{step}, {name}", warning)),
    }
    drawn = {kind: (what, figure) for kind, (what, figure) in drawn.items() if figure}
    if not comparisons:
        return drawn
    figure = times.times(comparisons, f"Time per network and device, {name}", warning)
    return {"times": ("Training and testing time", figure), **drawn}


def _by_batch(sweep: Sweep, warning: str) -> Drawn:
    """Throughput and latency against batch size."""
    rows, name = sweep.ok_rows, sweep.suite
    return {
        "throughput": (
            "Throughput against batch size",
            by_batch.throughput(rows, f"Throughput, with its spread within a process, {name}", warning),
        ),
        "latency": (
            "Latency against batch size",
            by_batch.latency(rows, f"Latency p50, thick to p90, thin to p99, {name}", warning),
        ),
    }


def _by_family(sweep: Sweep, warning: str) -> Drawn:
    """Study 000's bars by family of networks, precision and batch."""
    pictures: dict[str, tuple[str, str, Callable[[ReportedCell], float | None]]] = {
        "families": ("Throughput by family", "images/s", lambda reported: reported.number("samples_per_s")),
        "speedups": (
            "Speed-up over the CPU, throughput",
            "x",
            lambda reported: gain_over(Device.cpu, reported, sweep.cells, "samples_per_s"),
        ),
        "gpu_over_tpu": (
            "Speed-up of the GPU over the TPU, throughput",
            "x",
            lambda reported: (
                gain_over(Device.tpu, reported, sweep.cells, "samples_per_s")
                if reported.cell.device == Device.gpu
                else None
            ),
        ),
        "utilisation": ("Utilisation of the device", "%", device_load.utilisation_percent),
        "power": ("Power of the GPU", "W", lambda reported: reported.number("gpu_power_w")),
        "temperature": ("Temperature of the GPU", "°C", lambda reported: reported.number("gpu_temperature_c")),
        "clock": ("Clock of the GPU", "MHz", lambda reported: reported.number("gpu_clock_mhz")),
        "memory": ("Peak memory of the device", "MB", lambda reported: reported.number("peak_device_mb")),
        "communication": ("Copying to the device and back", "% of a step", study_steps.communication_percent),
    }
    others = {"speedups": Device.cpu, "gpu_over_tpu": Device.tpu}  # the devices that are compared with

    def is_doubtful(kind: str) -> Callable[[ReportedCell], bool]:
        if kind not in others:
            return studies.has_warnings
        return lambda reported: any(
            map(studies.has_warnings, (reported, equal_on(others[kind], reported, sweep.cells)))
        )

    return {
        kind: (
            what,
            studies.families(sweep.cells, value, unit, f"{what}, {sweep.suite}", warning, is_doubtful(kind)),
        )
        for kind, (what, unit, value) in pictures.items()
    }


def _dashboards(sweep: Sweep, warning: str) -> Drawn:
    """Study 003's four panels for each network, and its summary."""
    drawn: Drawn = {}
    for model in dict.fromkeys(reported.cell.model.name for reported in sweep.cells):
        cells = [reported for reported in sweep.cells if reported.cell.model.name == model]
        figure = studies.dashboard(cells, f"{model}: inference by batch, {sweep.suite}", warning)
        drawn[f"dashboard_{len(drawn)}"] = (f"Latency, throughput and speed-up of {model}", figure)
    drawn["summary"] = (
        "Devices, the best batches and conclusions on one page",
        study_summary.summary_page(sweep, f"Summary, {sweep.suite}", warning),
    )
    return drawn


def _nothing(sweep: Sweep, warning: str) -> Drawn:
    return {}


# The pictures of a study's suite that replace throughput and latency against batch.
STUDY_PICTURES: Mapping[str, Callable[[Sweep, str], Drawn]] = {
    "000": _by_family,
    "002": _nothing,  # one batch size
    "003": _dashboards,
    "004": _nothing,  # one batch size
}
