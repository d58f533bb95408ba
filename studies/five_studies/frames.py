"""Study 003's table of frames per second beside ours, and its comparison of inference times drawn with ours."""

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accelbench.answers.cells import MeasuredCell
from accelbench.report.read import Sweep
from accelbench.report.table import Table, count, number, tabulate_known
from accelbench.schema.cell import Device
from accelbench.schema.record import read_all
from five_studies import published
from five_studies.comparison import equal_on, ratio
from five_studies.pictures import plain
from five_studies.published import Line, Published, by_place
from five_studies.style import COLOURS, finished, log_ticks, sized, tidy

COLUMNS = by_place(
    "network",
    "device",
    "its FPS",
    "ours: batches/s",
    "ours: images/s",
    "batch",
    "its speed-up (x)",
    "ours: speed-up (x)",
    "its memory (MB)",
    "ours: memory (MB)",
)
NOTES = [
    'The study\'s "FPS" counts batches of 8 images: in its own times, a batch takes 36.71 ms, so 27.2 batches or 218 '
    "images a second. Ours are from the batch nearest to 8. Its speed-ups and memory are from its table for the GPU."
]


def table(sweep: Sweep) -> Table | None:
    """The study's expected performance beside ours. None if the study published no frames per second."""
    entries = published.load(sweep.study)
    lines = list(_lines(sweep, [each for each in entries if each.metric == "low_frames_per_s"]))
    return tabulate_known("Frames per second, as the study counts them", COLUMNS, lines, NOTES) if lines else None


def _lines(sweep: Sweep, entries: Sequence[Published]) -> Iterator[Line]:
    for entry in entries:
        (batch,) = (each.value for each in published.load(sweep.study) if each.metric == "optimal_batch")
        device = Device(str(entry.device))
        cells = [
            each for each in plain(sweep.cells) if (each.cell.model.name, each.cell.device) == (entry.model, device)
        ]
        ours = min(cells, key=lambda each: abs(each.cell.batch_size - batch), default=None)
        speed, size = (ours.speed, ours.cell.batch_size) if ours else (None, None)
        batches_per_s = speed / size if speed and size else None
        over_cpu = ratio(ours, equal_on(Device.cpu, ours, sweep.cells)) if ours else None
        memory = published.find(sweep.study, entry.model, "peak_memory", device)
        yield [
            entry.model,
            device,
            _range(entry, "frames_per_s", device),
            number(batches_per_s),
            number(speed),
            count(size),
            _range(entry, "speedup_over_cpu", device),
            number(over_cpu),
            published.entry(memory),
            number(ours.number("peak_device_mb") if ours else None),
        ]


def _range(entry: Published, metric: str, device: Device) -> str | None:
    """The bounds of a published number, such as `20 to 30`. None if the study has no such bounds."""
    ends = [published.find(entry.study, entry.model, f"{end}_{metric}", device) for end in ("low", "high")]
    known = [f"{each.value:g}" for each in ends if each]
    return " to ".join(known) or None


def comparison(sweep: Sweep, title: str, warning: str) -> Figure | None:
    """The study's figure `inference_comparison`, drawn with our cells of the smallest network.

    Its four panels have the spread of a batch's time as boxes, images per second as bars, and the time and the speed-up
    by batch size. None for fewer than two cells.
    """
    entries = [each for each in published.load(sweep.study) if each.metric == "latency"]
    cells = [each for each in plain(sweep.cells) if entries and each.cell.model.name == entries[0].model]
    if len(cells) < 2:
        return None
    figure = sized(11.0, 7.5)
    boxes, bars, times, gains = figure.subplots(2, 2).flat
    sizes = sorted({each.cell.batch_size for each in cells} | {each.batch_size or 0 for each in entries})
    devices = list(dict.fromkeys(each.cell.device for each in cells))
    for number_of_device, device in enumerate(devices):
        here = sorted((each for each in cells if each.cell.device == device), key=lambda each: each.cell.batch_size)
        places = [sizes.index(each.cell.batch_size) + _beside(number_of_device, len(devices)) for each in here]
        look: dict[str, Any] = {"color": COLOURS[device]}
        _draw_boxes(boxes, here, places, 0.8 / len(devices), look)
        bars.bar(places, [each.speed or 0.0 for each in here], 0.8 / len(devices), **look)
        _draw_line(times, [(sizes.index(e.cell.batch_size), e.number("latency_p50_ms")) for e in here], device, look)
        over_cpu = [(sizes.index(e.cell.batch_size), ratio(e, equal_on(Device.cpu, e, sweep.cells))) for e in here]
        _draw_line(gains, over_cpu, device, look)
    theirs = [(times, "latency"), (gains, "speedup_over_cpu")]
    for axes, metric in theirs:
        for device in Device:
            known = [
                e for e in published.load(sweep.study) if (e.metric, e.device) == (metric, device) and e.batch_size
            ]
            if known:
                points = [sizes.index(e.batch_size or 0) for e in known], [e.value for e in known]
                axes.plot(*points, "x", color=COLOURS[device], label=f"{device}, published")
    titles = {boxes: "time of a batch (ms)", bars: "images/s", times: "time of a batch (ms)", gains: "times the CPU"}
    for axes, what in titles.items():
        axes.set_title(what, fontsize=10)
        axes.set_xticks(range(len(sizes)), map(str, sizes))
        axes.set_xlabel("batch")
        tidy(axes)
    for axes in (boxes, times):
        axes.set_yscale("log")
        log_ticks(axes.yaxis, 6)
    handles, _ = times.get_legend_handles_labels()
    return finished(figure, title, warning, handles, 4)


def _beside(number_of_device: int, num: int) -> float:
    """The horizontal distance of a device's bar from the place of its batch."""
    return 0.8 * ((number_of_device + 0.5) / num - 0.5)


def _draw_line(axes: Axes, points: Sequence[tuple[int, float | None]], device: Device, look: dict[str, Any]) -> None:
    known = [(place, value) for place, value in points if value is not None]
    if known:
        axes.plot(*zip(*known, strict=True), marker="o", label=f"{device}, ours", **look)


def _draw_boxes(
    axes: Axes, cells: Sequence[MeasuredCell], places: Sequence[float], width: float, look: dict[str, Any]
) -> None:
    """Draws a box for each cell's single steps. The steps are read from the records, because a report keeps none."""
    steps = [[1e3 * seconds for seconds in _latencies(each)] for each in cells]
    drawn = axes.boxplot(steps, positions=places, widths=0.9 * width, patch_artist=True, manage_ticks=False)
    for box in drawn["boxes"]:
        box.set(facecolor=look["color"], alpha=0.5)


def _latencies(cell: MeasuredCell) -> list[float]:
    measured = [each.measurement for each in read_all([cell.path] if cell.path else [])]
    return [seconds for each in filter(None, measured) for seconds in each.latency_s]
