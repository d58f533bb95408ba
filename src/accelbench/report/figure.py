"""Draws a picture for a paper or talk, as SVG, PDF or PNG.

It shows the gains of jobs, or the chart of a question in the report, such as `How near to the limit?`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import rcParams, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accelbench.answers.cells import Gap, Word
from accelbench.answers.jobs import Job, kind_of, reference_text
from accelbench.errors import UserError
from accelbench.judging.served import limit_text
from accelbench.presentation import shortened, significant
from accelbench.report.overview import notes_of
from accelbench.report.questions import QuestionSection
from accelbench.schema.record import Value
from accelbench.schema.serialize import grouped, writing
from accelbench.schema.vocab import Verdict

STYLE = Path(__file__).parent / "templates" / "figure.mplstyle"
# Format -> the metadata that would make equal pictures differ.
FORMATS = {"svg": "Date", "pdf": "CreationDate", "png": "Software"}
LEAST_WIDTH, SMALL, MOST_WIDTH = 3.0, 5.0, 20.0  # inches
SMALL_STYLE = {"font.size": 6.5, "lines.markersize": 5}
AXIS, ROW, CURVES = 0.45, 0.25, 2.6  # height in inches of an axis, a row, a chart of curves
LETTER, LEGEND_LINE, LEGEND_COLUMN = 0.0078, 0.02, 0.15  # inches for each point of the text's size
MAX_ROWS = 24
INK, FAINT, GAIN = "#1d2329", "#6b7680", "#e8f3ed"
DASHED: Any = (0, (1.6, 1.2))

# Engine, with its device if the reference ran on another one -> colour and marker. Colour-blind readers, and readers of
# a grey copy, can tell them apart. Most colours are Okabe and Ito's.
LOOKS = {
    "PyTorch": ("#3b4252", "o"),
    "Lightning": ("#a0378a", "p"),
    "Keras": ("#D55E00", "s"),
    "ONNX Runtime": ("#009E73", "v"),
    "OpenVINO": ("#0072B2", "^"),
    "AOTInductor": ("#b58900", "P"),
    "PyTorch on XLA": ("#CC79A7", "D"),
    "PyTorch on GPU": ("#00795a", "h"),
    "PyTorch on TPU": ("#7a4fd0", "*"),
    "Keras on GPU": ("#E69F00", "d"),
    "Lightning on GPU": ("#56B4E9", "X"),
}
OTHER = (FAINT, "<")
# Word -> how its marks are filled (None: with their colour), their line, and the sign above them.
SURENESS: dict[Word, tuple[str | None, Any, str]] = {
    Word.sure: (None, "-", ""),
    Word.same: (None, "-", ""),
    Word.likely: ("white", "-", ""),
    Word.cant_tell: ("white", DASHED, "?"),
}
# Colours of the parts of a bar, and of the settings of curves.
COLOURS = ("#0072B2", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#F0E442", "#999999", "#3b4252")
HATCHES = ("", "////", "", "\\\\\\\\", "....", "", "xxxx", "----", "")
MARKERS = "os^Dvp"
# Kind of a question whose chart has bars -> label of the axis.
STACKS = {
    "percent": "percent of the device's peak operations per second",
    "phases": "percent of a step",
    "spans": "seconds to the target",
}
STROKES: dict[str, Any] = {"p99": "-", "p90": (0, (5, 2)), "p50": (0, (1, 1))}


class Row(NamedTuple):
    """A row of a chart: a name on the left, marks, and a text at the right end."""

    name: str
    text: str
    gaps: Sequence[Gap] = ()
    is_told: bool = True
    gain: Gap | None = None  # the gain in the text at the right end
    notes: Sequence[str] = ("",)  # a note for each mark


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
        _add_legend(figure)
        figure.savefig(file, format=kind, metadata={FORMATS[kind]: None})


def _add_legend(figure: Figure) -> None:
    """Adds a legend above the panels, and makes room for it. The legend has the labels of all panels."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        of_panel = axes.get_legend_handles_labels()
        handles |= dict(zip(*reversed(of_panel), strict=True))
    width, height = figure.get_size_inches()
    num_columns = max(2, int(width / (LEGEND_COLUMN * rcParams["font.size"])))
    place: Any = {"loc": "outside upper left", "ncols": num_columns}
    figure.legend(handles.values(), handles.keys(), **place)
    num_lines = 1 + math.ceil(len(handles) / num_columns)
    figure.set_size_inches(width, height + LEGEND_LINE * rcParams["font.size"] * num_lines)


def of_jobs(jobs: Sequence[Job], width: float) -> Figure:
    """Draws a row for each job with gains. A mark shows a setting's speed / the speed of its reference."""
    rows = [Row(job.name, _end(job), job.gains, job.answer.best is not None, job.gain, notes_of(job)) for job in jobs]
    figure = Figure((width, ROW * len(rows) + AXIS))
    axes = figure.subplots()
    _draw_ratios(axes, rows)
    axes.set_xlabel(f"times as fast as {reference_text(jobs)} at the same batch")
    return figure


def _end(job: Job) -> str:
    """Returns the text at the end of a job's row, such as `8.5x OpenVINO int8`."""
    if job.answer.best:
        return f"{significant(job.gain.ratio, 2)}x {job.choice}"
    if job.gain.word == Word.cant_tell:
        return f"? {job.choice}"
    return f"keep {job.name_of(job.gain.second)}"


def of_question(sections: Sequence[QuestionSection], width: float) -> Figure:
    """Draws a chart for each section, one below the other. All sections are about the same question."""
    draw, has_curves = CHARTS[sections[0].kind]
    heights = [CURVES if has_curves else ROW * min(MAX_ROWS, len(section.lines)) for section in sections]
    figure = Figure((width, sum(heights) + AXIS * len(heights)))
    panels = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    for section, axes in zip(sections, panels, strict=True):
        draw(axes, section)
        if not has_curves and len(section.lines) > MAX_ROWS:
            axes.set_xlabel(f"{axes.get_xlabel()}; {MAX_ROWS} of {len(section.lines)}")
        if len(sections) > 1:
            axes.set_title(section.title)
    return figure


def _draw_names(axes: Axes, rows: Sequence[Row]) -> None:
    """Draws each row's name at its left and text at its right. Together, they take two thirds of the width or less."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    third = int(figure.get_figwidth() / (3 * LETTER * rcParams["font.size"]))
    ends = [shortened(row.text, third) for row in rows]
    room = 2 * third - max(map(len, ends))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [shortened(row.name, room) for row in rows])
    beside: Any = {"transform": axes.get_yaxis_transform(), "va": "center_baseline"}
    for place, (row, end) in enumerate(zip(rows, ends, strict=True)):
        axes.text(1.02, place, end, color=INK if row.is_told else FAINT, **beside)


def _draw_ratios(axes: Axes, rows: Sequence[Row]) -> None:
    """Marks on a logarithmic axis around 1."""
    _draw_names(axes, rows)
    gaps = [gap for row in rows for gap in row.gaps]
    ends = [end for gap in gaps for end in (gap.ratio, *(gap.bounds or ()))]
    low = min(0.5, *ends) / 1.12
    high = max(2.0, *ends) * 1.12
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    shown = [power for power in powers if power % math.ceil(len(powers) / 8) == 0]
    words = [f"1/{2**-power}" if power < 0 else f"{2**power}x" for power in shown]
    axes.set_xticks([2.0**power for power in shown], words)
    axes.minorticks_off()
    axes.axvspan(1, high, color=GAIN, zorder=0)
    axes.axvline(1, color=INK)
    for place, row in enumerate(rows):
        gain = row.gain or row.gaps[0]
        if row.is_told:
            colour, _ = LOOKS.get(kind_of(gain), OTHER)
            axes.plot([1, gain.ratio], [place, place], color=colour, linewidth=3, alpha=0.3)
        is_below = False  # every second note is below its mark, since neighbours may be close
        for gap, note in zip(row.gaps, row.notes, strict=True):
            _draw_mark(axes, gap, place, note, is_below=is_below and bool(note))
            is_below ^= bool(note)
    _label(axes, gaps)


def _draw_mark(axes: Axes, gap: Gap, place: float, note: str, *, is_below: bool) -> None:
    """Draws a mark with its interval. `note` is above or below the mark, and distinguishes marks of one kind."""
    colour, marker = LOOKS.get(kind_of(gap), OTHER)
    fill, line, sign = SURENESS[gap.word]
    if gap.bounds:
        axes.plot(gap.bounds, [place, place], color=colour, linestyle=line)
        axes.plot(gap.bounds, [place, place], "|", color=colour, markersize=4)
    axes.plot(gap.ratio, place, marker, color=colour, markerfacecolor=fill or colour, zorder=3)
    side: Any = {"xytext": (0, -4), "va": "top"} if is_below else {"xytext": (0, 4)}
    look: Any = {"textcoords": "offset points", "ha": "center", "fontsize": "x-small", "color": colour}
    doubt = "!" if gap.is_doubtful else ""
    axes.annotate(f"{note}{sign}{doubt}", (gap.ratio, place), **side, **look)


def _label(axes: Axes, gaps: Sequence[Gap]) -> None:
    """Adds labels for the legend. Only the kinds of marks that are drawn have a label."""
    kinds = dict.fromkeys(map(kind_of, gaps))
    for kind in sorted(kinds, key=[*LOOKS, *kinds].index):
        colour, marker = LOOKS.get(kind, OTHER)
        axes.plot([], [], marker, color=colour, label=kind)
    words = {gap.word for gap in gaps}
    for word, (fill, line, sign) in SURENESS.items():
        if word in words:
            look: Any = {"markerfacecolor": fill or FAINT, "linestyle": line if sign else "none"}
            axes.plot([], [], marker="o", color=FAINT, label=f"{sign} {word}".strip(), **look)
    if bounded := [gap for gap in gaps if gap.bounds]:
        is_exact = all(gap.is_interleaved for gap in bounded)
        axes.plot([], [], color=FAINT, label="95 % interval" if is_exact else "both 95 % intervals")
    if any(gap.is_doubtful for gap in gaps):
        axes.plot([], [], " ", label="! in doubt")


def _times(axes: Axes, section: QuestionSection) -> None:
    rows = []
    for line, gap in zip(section.lines[:MAX_ROWS], section.gaps, strict=False):
        rows.append(Row(line.name, f"{significant(line.value, 2)}x", [gap], gap.word != Word.cant_tell))
    axes.set_xlabel(section.unit)
    _draw_ratios(axes, sorted(rows, key=lambda row: -row.gaps[0].ratio))


def _stacks(axes: Axes, section: QuestionSection) -> None:
    """Draws a bar for each line of the section. A bar consists of the line's parts, or has the line's value."""
    axes.set_xlabel(STACKS[section.kind])
    lines = section.lines[:MAX_ROWS]
    parts = [line.probe or {"": line.value} for line in lines]
    _draw_names(axes, [Row(line.name, line.text) for line in lines])
    left = [0.0] * len(lines)
    names = dict.fromkeys(name for each in parts for name in each)
    used = [name for name in names if any(each.get(name) for each in parts)]
    for name, colour, hatch in zip(used, COLOURS, HATCHES, strict=False):
        lengths = [_known(each.get(name)) for each in parts]
        look: Any = {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "label": name.replace("_", " ")}
        axes.barh(range(len(lines)), lengths, 0.6, left, **look)
        left = [begin + length for begin, length in zip(left, lengths, strict=True)]
    axes.set_xlim(0, max(left))


def _known(value: Value) -> float:
    return float(value or 0.0)


def _requests(axes: Axes, section: QuestionSection) -> None:
    """Draws latency against the rate of requests. Each probe (a process at one rate) has a mark.

    The mark shows the percentile of latency that the limit is for, such as p99.
    """
    row: Any = section.lines[0].probe
    limited = f"request_p{row['limit_percentile']:g}_ms".replace(".", "")
    axes.set(yscale="log", xlabel="requests/s offered", ylabel="latency (ms)")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.axhline(row["limit_ms"], color=INK)
    axes.text(0, row["limit_ms"], f" {limit_text(row)}", transform=axes.get_yaxis_transform(), va="bottom")
    for name, probes, colour, marker in _settings(section):
        probes.sort(key=lambda probe: _known(probe["offered_per_s"]))
        rates = [_known(probe["offered_per_s"]) for probe in probes]
        for percentile, stroke in STROKES.items():
            times_ms = [probe[f"request_{percentile}_ms"] or math.nan for probe in probes]
            axes.plot(rates, times_ms, color=colour, linestyle=stroke)
        for rate, probe in zip(rates, probes, strict=True):
            fails = probe["verdict"] == Verdict.fails
            fill = "white" if probe["verdict"] == Verdict.unknown else colour
            axes.plot(
                rate, probe.get(limited) or math.nan, "x" if fails else marker, color=colour, markerfacecolor=fill
            )
        axes.plot([], [], marker=marker, color=colour, label=name)
    for percentile, stroke in STROKES.items():
        axes.plot([], [], color=FAINT, linestyle=stroke, label=percentile)
    axes.plot([], [], "o", color=FAINT, label="sure pass")
    axes.plot([], [], "x", color=FAINT, label="sure fail")
    axes.plot([], [], "o", color=FAINT, markerfacecolor="white", label="can't tell")


def _arrivals(axes: Axes, section: QuestionSection) -> None:
    """Draws a curve for each setting: the share of its seeds that have reached the target, against time.

    A hollow mark shows when a run ended without reaching the target.
    """
    for name, runs, colour, marker in _settings(section):
        arrived = sorted(_known(run["seconds"]) for run in runs if run["seconds"])
        watched = [_known(run["watched_s"]) for run in runs if run["watched_s"]]
        shares = [100 * num / len(runs) for num in range(len(arrived) + 1)]
        axes.step([0, *arrived, max([0, *arrived, *watched])], [*shares, shares[-1]], where="post", color=colour)
        axes.plot(watched, [shares[-1]] * len(watched), marker, color=colour, markerfacecolor="white")
        axes.plot(arrived, shares[1:], marker, color=colour)
        axes.plot([], [], marker=marker, color=colour, label=name)
    axes.set(xlabel="seconds", ylabel="percent of the seeds at the target", ylim=(0, 105))
    axes.set_xlim(0)


def _settings(section: QuestionSection) -> Iterator[tuple[str, list[Mapping[str, Value]], str, str]]:
    """Yields name, values, colour and marker of each setting in a chart of curves. Only the first are drawn."""
    by_setting = grouped(section.lines, lambda line: line.name)
    for (name, lines), colour, marker in zip(by_setting.items(), COLOURS, MARKERS, strict=False):
        yield name, [line.probe or {} for line in lines], colour, marker


# Kind of a question -> the function that draws it, and whether it draws curves instead of rows.
CHARTS: dict[str, tuple[Callable[[Axes, QuestionSection], None], bool]] = {
    "times": (_times, False),
    **dict.fromkeys(STACKS, (_stacks, False)),
    "requests": (_requests, True),
    "arrivals": (_arrivals, True),
}
