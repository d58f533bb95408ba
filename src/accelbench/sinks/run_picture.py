"""A picture of one cell's samples, which is delivered with its run.

It is an SVG from a template: a plot library would take as long as the rest of a cell's overhead.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, Template

from accelbench.judging import disturbed
from accelbench.judging.row import steady_rates
from accelbench.presentation import significant
from accelbench.schema.record import Record
from accelbench.schema.vocab import Mode, Status
from accelbench.stats import order_statistics

WIDTH, LEFT, RIGHT = 640, 60, 20  # pixels
PLOT_HEIGHT, GAP = 130, 62
MAX_POINTS = 500  # of a panel: more points would hide one another


def draw(record: Record) -> str | None:
    """An SVG of the speed of blocks or epochs and the times of steps; None if the cell has no numbers or no samples."""
    measured = record.measurement
    if record.status != Status.ok or measured is None or disturbed.reason(record):
        return None
    panels = []
    if rates := steady_rates(measured):
        of = "block" if not measured.epochs else "epoch" if record.cell.mode == Mode.train else "pass"
        num_left_out = len(measured.epochs) - len(measured.steady_epochs)
        title = f"samples/s of each {of}: median {significant(order_statistics.median(rates), 4)}"
        if interval := order_statistics.median_interval(rates):
            low, high = (significant(value, 4) for value in interval)
            title += f", shaded: {low} to {high} with 95 % confidence"
        panels.append(_panel(title, rates, of, 1 + num_left_out, interval))
    if milliseconds := [1000 * seconds for seconds in measured.latency_s]:
        sample, title = order_statistics.Sample(milliseconds), "ms of each step that was waited for"
        known = {percent: sample.supported_percentile(percent) for percent in (50, 90, 99)}
        if named := [f"p{percent} {significant(value)}" for percent, value in known.items() if value is not None]:
            title += f": {', '.join(named)}"
        panels.append(_panel(title, milliseconds, "step", 1))
    if not panels:
        return None
    title, plot = f"{record.label} on {measured.device_name}", (WIDTH - LEFT - RIGHT, PLOT_HEIGHT)
    return _template().render(title=title, panels=panels, width=WIDTH, left=LEFT, plot=plot, gap=GAP)


@cache
def _template() -> Template:
    return Environment(loader=PackageLoader("accelbench.sinks", ""), autoescape=True).get_template("run.svg")


def _panel(
    title: str, values: Sequence[float], of: str, first: int, interval: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Samples in their order, on an axis that starts at 0; in pixels from the panel's left and top."""
    top, width = 1.1 * max(values), WIDTH - LEFT - RIGHT

    def height(value: float) -> float:
        return round(PLOT_HEIGHT * (1 - value / top), 1)

    every = -(-len(values) // MAX_POINTS)
    step = width / max(1, len(values) - 1)
    return {
        "title": title,
        "points": [(round(step * index, 1), height(values[index])) for index in range(0, len(values), every)],
        "band": interval and (height(interval[1]), height(interval[0])),  # its top and its bottom
        "median": height(order_statistics.median(values)),
        "top_word": significant(top),  # the value at the upper end of the axis
        "ends": (f"{of} {first}", f"{of} {first + len(values) - 1}"),
    }
