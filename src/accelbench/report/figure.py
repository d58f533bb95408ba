"""Draws a picture for a paper or talk, as SVG, PDF or PNG.

It shows the gains of jobs, or the chart of a question in the report, such as `How near to the limit?`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import rcParams, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accelbench.answers.gaps import Gap, Word
from accelbench.answers.jobs import Job, kind_of, reference_text
from accelbench.errors import UserError
from accelbench.judging.row import limit_text
from accelbench.presentation import shortened, significant
from accelbench.report.overview import notes_of
from accelbench.report.questions import QuestionSection
from accelbench.schema.cell import Verdict
from accelbench.schema.serialize import grouped, writing

STYLE = Path(__file__).parent / "templates" / "figure.mplstyle"
# Format -> the metadata that would make equal pictures differ.
FORMATS = {"svg": "Date", "pdf": "CreationDate", "png": "Software"}
LEAST_WIDTH, SMALL, MOST_WIDTH = 3.0, 5.0, 20.0  # inches
SMALL_STYLE = {"font.size": 6.5, "lines.markersize": 5}
# Height in inches of an axis, a row, a chart of curves, the legend.
AXIS, ROW, CURVES, LEGEND = 0.45, 0.25, 2.6, 0.4
LETTER = 0.0078  # width in inches of a letter, for each point of the text's size
MAX_ROWS = 24
INK, FAINT, GAIN = "#1d2329", "#6b7680", "#e8f3ed"
MARKERS = "os^vDPphX*d"
HATCHES = ("", "////", "", "....")
# Word -> whether its marks are filled, their line, and the sign above them.
SURENESS: dict[Word, tuple[bool, Any, str]] = {
    Word.sure: (True, "-", ""),
    Word.same: (True, "-", ""),
    Word.likely: (False, "-", ""),
    Word.cant_tell: (False, (0, (1.6, 1.2)), "?"),
}
Looks = Mapping[str, tuple[str, str]]  # name -> colour and marker


class Row(NamedTuple):
    """A row of a chart: a name on the left, marks, and a text at the right end."""

    name: str
    text: str
    gaps: Sequence[Gap] = ()
    notes: Sequence[str] = ()  # a note for each mark
    gain: Gap | None = None  # the gain in the text at the right end; None if nothing is faster


def format_of(path: Path) -> str:
    """Returns the format for the suffix of a file's name. Raises UserError: no format has this suffix."""
    found = path.suffix.lower().removeprefix(".")
    if found not in FORMATS:
        raise UserError(f"--out {path}: should end in .svg, .pdf or .png")
    return found


def save(path: Path, width: float, draw: Callable[[float], Figure]) -> None:
    """Calls `draw` with a width in inches, and writes the figure in the format of the file's suffix."""
    kind = format_of(path)
    with style.context([STYLE, SMALL_STYLE if width < SMALL else {}]), writing(path) as file:
        figure = draw(width)
        if figure.axes[0].get_legend() is None:
            handles, labels = figure.axes[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper left", ncols=max(2, int(width)))
        figure.savefig(file, format=kind, metadata={FORMATS[kind]: None})


def of_jobs(jobs: Sequence[Job], width: float) -> Figure:
    """Draws a row for each job with gains. A mark shows a setting's speed / the speed of its reference."""
    rows = []
    for job in jobs:
        rows.append(Row(job.name, _end(job), job.gains, notes_of(job), job.gain if job.best else None))
    figure = Figure((width, ROW * len(rows) + AXIS + LEGEND))
    axes = figure.subplots()
    axes.set_xlabel(f"times as fast as {reference_text(jobs)} at the same batch")
    _draw_ratios(axes, rows)
    return figure


def _end(job: Job) -> str:
    """Returns the text at the end of a job's row, such as `8.5x OpenVINO int8`."""
    if job.best:
        return f"{significant(job.gain.ratio, 2)}x {job.text(job.gain.first)}"
    if job.gain.word == Word.cant_tell:
        return f"? {job.text(job.gain.first)}"
    return f"keep {job.setting(job.gain.second)}"


def of_question(sections: Sequence[QuestionSection], width: float) -> Figure:
    """Draws a chart for each section, one below the other. All sections are about the same question."""
    draw = CHARTS[sections[0].kind]
    has_curves = draw in (_requests, _arrivals)
    heights = [CURVES if has_curves else ROW * min(MAX_ROWS, len(section.lines)) for section in sections]
    figure = Figure((width, sum(heights) + AXIS * len(heights) + LEGEND))
    panels = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    for section, axes in zip(sections, panels, strict=True):
        num = len(section.lines)
        axes.set_xlabel(
            section.unit + (f"; {MAX_ROWS} of {num}" if num > MAX_ROWS and not has_curves else "")
        )
        if len(sections) > 1:
            axes.set_title(section.title)
        draw(axes, section)
    return figure


def _draw_names(axes: Axes, rows: Sequence[Row]) -> None:
    """Draws each row's name at its left and text at its right. Each takes a third of the width or less."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    third = int(figure.get_figwidth() / (3 * LETTER * rcParams["font.size"]))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [shortened(row.name, third) for row in rows])
    beside: Any = {"transform": axes.get_yaxis_transform(), "va": "center_baseline"}
    for place, row in enumerate(rows):
        axes.text(
            1.02,
            place,
            shortened(row.text, third),
            color=INK if row.gain or not row.gaps else FAINT,
            **beside,
        )


def _draw_ratios(axes: Axes, rows: Sequence[Row]) -> None:
    """Marks on a logarithmic axis around 1."""
    _draw_names(axes, rows)
    gaps = [gap for row in rows for gap in row.gaps]
    ends = [end for gap in gaps for end in (gap.ratio, *(gap.bounds or ()))]
    low = min(0.5, *ends) / 1.12
    high = max(2.0, *ends) * 1.12
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_formatter(lambda ratio, _: f"1/{1 / ratio:g}" if ratio < 1 else f"{ratio:g}x")
    axes.set_xticks([1], ["1x"], minor=True)  # also if the axis is too short for a label at each power
    axes.axvspan(1, high, color=GAIN, zorder=0)
    axes.axvline(1, color=INK)
    looks = {
        name: (f"C{number % 9}", MARKERS[number % len(MARKERS)])
        for number, name in enumerate(dict.fromkeys(map(kind_of, gaps)))
    }
    for place, row in enumerate(rows):
        if row.gain:
            axes.plot(
                [1, row.gain.ratio], [place, place], color=looks[kind_of(row.gain)][0], linewidth=3, alpha=0.3
            )
        for gap, note in zip(row.gaps, row.notes, strict=True):
            _draw_mark(axes, gap, place, note, looks)
    _label(axes, gaps, looks)


def _draw_mark(axes: Axes, gap: Gap, place: float, note: str, looks: Looks) -> None:
    """Draws a mark with its interval. `note` is above the mark, and distinguishes marks of one kind."""
    colour, marker = looks[kind_of(gap)]
    is_filled, line, sign = SURENESS[gap.word]
    if gap.bounds:
        axes.plot(gap.bounds, [place, place], color=colour, linestyle=line)
        axes.plot(gap.bounds, [place, place], "|", color=colour, markersize=4)
    axes.plot(
        gap.ratio, place, marker, color=colour, markerfacecolor=colour if is_filled else "white", zorder=3
    )
    look: Any = {"textcoords": "offset points", "ha": "center", "fontsize": "x-small", "color": colour}
    doubt = "!" if gap.is_doubtful else ""
    axes.annotate(f"{note}{sign}{doubt}", (gap.ratio, place), xytext=(0, 4), **look)


def _label(axes: Axes, gaps: Sequence[Gap], looks: Looks) -> None:
    """Adds labels for the legend. Only the kinds of marks that are drawn have a label."""
    for kind, (colour, marker) in looks.items():
        axes.plot([], [], marker, color=colour, label=kind)
    words = {gap.word for gap in gaps}
    for word, (is_filled, line, sign) in SURENESS.items():
        if word in words:
            look: Any = {
                "markerfacecolor": FAINT if is_filled else "white",
                "linestyle": line if sign else "none",
            }
            axes.plot([], [], marker="o", color=FAINT, label=f"{sign} {word}".strip(), **look)
    if bounded := [gap for gap in gaps if gap.bounds]:
        is_exact = all(gap.is_interleaved for gap in bounded)
        axes.plot([], [], color=FAINT, label="95 % interval" if is_exact else "both 95 % intervals")
    if any(gap.is_doubtful for gap in gaps):
        axes.plot([], [], " ", label="! in doubt")


def _times(axes: Axes, section: QuestionSection) -> None:
    rows = []
    for line, gap in zip(section.lines[:MAX_ROWS], section.gaps, strict=False):
        gain = None if gap.word == Word.cant_tell else gap
        rows.append(Row(line.name, f"{significant(line.value, 2)}x", [gap], [""], gain))
    _draw_ratios(axes, sorted(rows, key=lambda row: -row.gaps[0].ratio))


def _bars(axes: Axes, section: QuestionSection) -> None:
    """Draws a bar for each line of the section. A bar consists of the line's parts, or has the line's value."""
    lines = section.lines[:MAX_ROWS]
    parts = [line.probe or {"": line.value} for line in lines]
    _draw_names(axes, [Row(line.name, line.text) for line in lines])
    left = [0.0] * len(lines)
    for number, name in enumerate(dict.fromkeys(name for each in parts for name in each)):
        lengths = [float(each.get(name) or 0.0) for each in parts]
        look: Any = {"color": f"C{number % 9}", "hatch": HATCHES[number % len(HATCHES)], "edgecolor": "white"}
        axes.barh(range(len(lines)), lengths, 0.6, left, label=name.replace("_", " "), **look)
        left = [begin + length for begin, length in zip(left, lengths, strict=True)]
    axes.set_xlim(0, max(left))


def _requests(axes: Axes, section: QuestionSection) -> None:
    """Draws latency against the rate of requests. Each probe (a process at one rate) has a mark.

    The mark shows the percentile of latency that the limit is for, such as p99. The marks of sure passes are filled.
    """
    row: Any = section.lines[0].probe
    limited = f"p{row['limit_percentile']:g}"
    column = f"request_{limited}_ms".replace(".", "")
    axes.set(yscale="log", xlabel="requests/s offered", ylabel=f"{limited} latency (ms)")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.axhline(row["limit_ms"], color=INK)
    axes.text(0, row["limit_ms"], f" {limit_text(row)}", transform=axes.get_yaxis_transform(), va="bottom")
    for name, lines in grouped(section.lines, lambda line: line.name).items():
        probes: Any = [line.probe for line in lines]
        probes.sort(key=lambda probe: probe["offered_per_s"])
        rates = [probe["offered_per_s"] for probe in probes]
        times_ms = [probe[column] or math.nan for probe in probes]
        is_sure = [probe["verdict"] == Verdict.passes for probe in probes]
        (curve,) = axes.plot(rates, times_ms, "o-", markerfacecolor="white", label=name)
        axes.plot(rates, times_ms, "o", color=curve.get_color(), markevery=is_sure)
    axes.plot([], [], "o", color=FAINT, label="sure pass")
    axes.legend()


def _arrivals(axes: Axes, section: QuestionSection) -> None:
    """Draws a curve for each setting: the share of its seeds that have reached the target, against time.

    A hollow mark shows when a run ended without reaching the target.
    """
    for name, lines in grouped(section.lines, lambda line: line.name).items():
        runs: Any = [line.probe for line in lines]
        arrived = sorted(run["seconds"] for run in runs if run["seconds"])
        watched = [run["watched_s"] for run in runs if run["watched_s"]]
        shares = [100 * num / len(runs) for num in range(len(arrived) + 1)]
        ends = [0, *arrived, max([0, *arrived, *watched])]
        marked = slice(1, len(arrived) + 1)
        (curve,) = axes.step(ends, [*shares, shares[-1]], "o-", where="post", markevery=marked, label=name)
        axes.plot(watched, [shares[-1]] * len(watched), "o", color=curve.get_color(), markerfacecolor="white")
    axes.set(xlabel="seconds", ylabel="percent of the seeds at the target", ylim=(0, 105))
    axes.set_xlim(0)
    axes.legend()


# Kind of a question -> the function that draws it.
CHARTS: dict[str, Callable[..., None]] = {
    "times": _times,
    "percent": _bars,
    "phases": _bars,
    "requests": _requests,
    "arrivals": _arrivals,
}
