"""What every result has, and tables with bars for notebooks: HTML without scripts, in the colours of their theme."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from html import escape

from accelbench.presentation import UNKNOWN, significant
from accelbench.schema.text import clean

# The theme's text colour shows on light and dark pages; the bars' blue has contrast to both.
BAR = "<div style='width:{:.0f}px;height:12px;background:#3d8bd4'></div>"
BAR_WIDTH = 120  # pixels, of the longest
CELL = "style='text-align:left;padding:2px 10px;vertical-align:top;{}'"
SHORT, MARKED = "white-space:nowrap;", "font-weight:bold;"


@dataclass(frozen=True, kw_only=True, repr=False)
class Figures:
    """What a measurement in this process has as a cell's result has it: columns of `cells.csv`, None if unknown."""

    samples_per_s: float | None  # of a process the median of its blocks of steps, of several the median of these
    samples_per_s_low: float | None  # of the 95 % interval
    samples_per_s_high: float | None
    # Percentiles of the time of a step of one batch, waited for, in milliseconds; None with too few steps.
    latency_p50_ms: float | None
    latency_p90_ms: float | None
    latency_p99_ms: float | None
    warnings: list[str]  # why a number may be off, a sentence each
    tips: list[str]  # what may be faster
    notes: list[str]  # what was measured, without a doubt about the numbers


NUMBERS = [figure.name for figure in fields(Figures) if figure.type != list[str]]


def page(
    lines: Sequence[str],
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    lengths: Sequence[float | None] = (),
    marked: Collection[int] = (),
) -> str:
    """Lines of text above a table of texts, each row of which has a bar of its one of `lengths`.

    The last column has long texts, which are broken. Rows whose numbers are in `marked` are bold, but for it.
    """
    longest = max((length for length in lengths if length), default=1.0)

    def line(tag: str, texts: Sequence[str], bar: str, style: str = "") -> str:
        cells = [f"<{tag} {CELL.format(SHORT + style)}>{escape(clean(text))}</{tag}>" for text in texts[:-1]]
        cells.append(f"<{tag} {CELL.format('min-width:20em')}>{escape(clean(texts[-1]))}</{tag}>")
        cells.insert(1, bar)
        return f"<tr>{''.join(cells)}</tr>"

    above = "".join(f"<p style='margin:2px 0'>{escape(clean(text))}</p>" for text in lines)
    head = line("th", headings, "<th></th>" if lengths else "")
    body = ""
    for number, row in enumerate(rows):
        bar = ""
        if lengths:
            width = BAR_WIDTH * (lengths[number] or 0.0) / longest
            bar = f"<td style='vertical-align:top;padding-top:5px'>{BAR.format(width)}</td>"
        body += line("td", row, bar, MARKED if number in marked else "")
    table = f"<thead>{head}</thead><tbody>{body}</tbody>"
    return f"<div>{above}<table style='border-collapse:collapse'>{table}</table></div>"


def interval(low: float | None, high: float | None) -> str:
    """Two ends, such as `98.1 to 102`; a dash if unknown."""
    return UNKNOWN if low is None or high is None else f"{significant(low)} to {significant(high)}"
