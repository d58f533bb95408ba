"""One cell's samples in a picture, which goes with its run wherever that is tracked."""

from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accelbench import stats
from accelbench.measurement import Measurement
from accelbench.record import Record
from accelbench.report.colours import PHASE_COLOURS
from accelbench.report.numbers import significant
from accelbench.summary import phases_ms, steady_epochs, steady_rates, summarise
from accelbench.vocab import Mode, Phase, Status

DPI = 80
COLOUR = "#0072B2"
MS = 1e3
MIN_SHARE = 0.005  # of a step: a phase below it has no bar


def draw(record: Record) -> Figure | None:
    """Speed over the blocks or epochs, how long steps took, and where a step's time goes; None where none is known.

    Args:
        record: of any status; a cell that is not ok has no picture, since its samples are not to be trusted.
    """
    measured = record.measurement
    if record.status != Status.ok or measured is None:
        return None
    rates, latencies, phases = steady_rates(measured), measured.latency_s, phases_ms(summarise(record))
    panels = [bool(rates), bool(latencies), any(phases.values())]
    if not any(panels):
        return None
    with matplotlib.rc_context({"text.parse_math": False}):  # names come from users: a $ in them is a $
        return _figure(record, measured, rates, latencies, phases, panels)


def _figure(
    record: Record,
    measured: Measurement,
    rates: Sequence[float],
    latencies: Sequence[float],
    phases: Mapping[Phase, float],
    panels: Sequence[bool],
) -> Figure:
    ratios = [height for height, there in zip((3.0, 2.6, 1.3), panels, strict=True) if there]
    height = sum(ratios) + 0.4
    figure = Figure(figsize=(8.0, height), dpi=DPI)
    axes = iter(figure.subplots(len(ratios), 1, squeeze=False, height_ratios=ratios)[:, 0])
    # Set by hand: a layout engine would draw everything twice, and a sweep waits for it.
    figure.subplots_adjust(left=0.09, right=0.98, top=1 - 0.75 / height, bottom=0.65 / height, hspace=0.55)
    if rates:
        of = "block" if not measured.epochs else "epoch" if record.cell.mode == Mode.train else "pass"
        num_left_out = len(measured.epochs) - len(steady_epochs(measured))
        _speed(next(axes), rates, of, 1 + num_left_out)
    if latencies:
        _latency(next(axes), [MS * seconds for seconds in latencies])
    if any(phases.values()):
        _phases(next(axes), phases)
    figure.suptitle(f"{record.cell.label} on {measured.device_name}", fontsize=10)
    return figure


def _speed(axes: Axes, rates: Sequence[float], of: str, first: int) -> None:
    axes.plot(range(first, first + len(rates)), rates, ".-", color=COLOUR, linewidth=0.8, markersize=4)
    axes.axhline(stats.median(rates), color="black", linewidth=0.8)
    told = f"median {significant(stats.median(rates), 4)}"
    if (interval := stats.median_interval(rates)) is not None:
        axes.axhspan(*interval, color=COLOUR, alpha=0.2, linewidth=0)
        told += f", shaded: {significant(interval[0], 4)} to {significant(interval[1], 4)} with 95 % confidence"
    axes.set_title(f"samples/s of each {of}: {told}", loc="left", fontsize=8)
    axes.set_ylim(0, 1.1 * max(rates))
    _tidy(axes, of)


def _latency(axes: Axes, milliseconds: Sequence[float]) -> None:
    axes.plot(range(1, len(milliseconds) + 1), milliseconds, ".", color=COLOUR, markersize=3)
    known = {percent: stats.supported_percentile(milliseconds, percent) for percent in (50, 90, 99)}
    told = ", ".join(f"p{percent} {significant(value)}" for percent, value in known.items() if value is not None)
    axes.set_title(f"ms of each step that was waited for{': ' if told else ''}{told}", loc="left", fontsize=8)
    axes.set_ylim(bottom=0)
    _tidy(axes, "step")


def _phases(axes: Axes, phases: Mapping[Phase, float]) -> None:
    total, left = sum(phases.values()), 0.0
    for phase, length in phases.items():
        if length / total >= MIN_SHARE:
            label = f"{phase.replace('_', ' ')} {length / total:.0%}"
            axes.barh(0, length, 0.8, left, color=PHASE_COLOURS[phase], label=label)
        left += length
    axes.set_title(f"a step by phase: {significant(total)} ms", loc="left", fontsize=8)
    axes.set_xlim(0, total)
    _tidy(axes, "ms")
    axes.set_yticks([])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=5, fontsize=7, frameon=False)


def _tidy(axes: Axes, along: str) -> None:
    axes.locator_params(nbins=4)  # each number on an axis takes a millisecond
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.01)
    axes.set_xlabel(along, fontsize=7, loc="right", labelpad=0)
