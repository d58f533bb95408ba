"""Speed against batch size, with the latency beside it, for each model."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.sentences import Answer
from accelbench.report.pictures.style import COLOURS, MARKERS, finished, log_ticks, sized, tidy, widen, wrapped

MAX_MODELS, MAX_LINES = 8, 5  # of a picture; of a panel: the fastest settings
WIDTH_INCH, TITLE_LETTERS = 9.0, 11.5  # of a picture; of a panel's title, per inch
PANELS = {"samples_per_s": "samples/s", "latency_p50_ms": "median step (ms)"}


def batch_lines(answers: Sequence[Answer]) -> Figure | None:
    """Two panels for each model and mode, a line for each setting; None if no setting has two batch sizes."""
    known = [(answer, lines) for answer in answers if (lines := _lines(answer))]
    if not known:
        return None
    title = f"Speed against batch size, with the latency beside it, of at most {MAX_LINES} settings"
    if len(known) > MAX_MODELS:
        title += f": {MAX_MODELS} of {len(known)} models"
        known = sorted(known, key=lambda pair: -max(len(cells) for cells in pair[1]))[:MAX_MODELS]
    figure = sized(WIDTH_INCH, 2.2 * len(known) + 0.5)
    for (answer, lines), panels in zip(known, figure.subplots(len(known), 2, squeeze=False), strict=True):
        for axes, (column, unit) in zip(panels, PANELS.items(), strict=True):
            for cells in lines:
                _draw(axes, cells, column, answer.group.setting(cells[0]))
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
            if any(cell.number(column) for cells in lines for cell in cells):
                axes.set_yscale("log")
                log_ticks(axes.yaxis)
                widen(axes)
            tidy(axes)
            axes.set_xlabel("batch size", fontsize=8)
            axes.set_ylabel(unit, fontsize=8)
        panels[0].set_title(wrapped(answer.title, WIDTH_INCH, TITLE_LETTERS), fontsize=9, loc="left")
        panels[1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return finished(figure, title)


def _lines(answer: Answer) -> list[list[MeasuredCell]]:
    """The cells of each setting in the order of their batch sizes, the fastest settings; empty without two sizes."""
    lines: dict[str, list[MeasuredCell]] = {}
    for cell in answer.group.cells:
        lines.setdefault(answer.group.setting(cell), []).append(cell)
    several = [cells for cells in lines.values() if len({each.cell.batch_size for each in cells}) > 1]
    return [sorted(cells, key=lambda each: each.cell.batch_size) for cells in several[:MAX_LINES]]


def _draw(axes: Axes, cells: Sequence[MeasuredCell], column: str, name: str) -> None:
    """A line through the known values, with their intervals."""
    colour, marker = COLOURS[cells[0].cell.device], MARKERS[cells[0].cell.precision]
    known = [each for each in cells if each.number(column)]
    batches, values = [each.cell.batch_size for each in known], [each.number(column) or 0.0 for each in known]
    axes.plot(batches, values, color=colour, marker=marker, markersize=4.5, linewidth=1.2, label=name)
    for each in known:
        low, high = each.number(f"{column}_low"), each.number(f"{column}_high")
        if low is not None and high is not None:
            axes.vlines(each.cell.batch_size, low, high, color=colour, linewidth=2.5, alpha=0.35)
