"""Declares the numbers of a result, and makes HTML tables with bars for notebooks. The tables need no script."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from html import escape

from accelbench.presentation import UNKNOWN, significant
from accelbench.schema.text import clean

# Text has the theme's colour. It is readable on light and dark pages. Blue bars are visible on both.
BAR = "<div style='width:{:.0f}px;height:12px;background:#3d8bd4'></div>"
BAR_WIDTH = 120  # pixels of the longest bar
CELL = "style='text-align:left;padding:2px 10px;vertical-align:top;{}'"
SHORT, MARKED = "white-space:nowrap;", "font-weight:bold;"


@dataclass(frozen=True, kw_only=True, repr=False)
class Figures:
    """Numbers and remarks of a measurement or a cell's result: columns of `cells.csv`. Unknown numbers are None."""

    samples_per_s: float | None  # median of a process's blocks; for several processes, the median of their medians
    samples_per_s_low: float | None  # 95 % interval
    samples_per_s_high: float | None
    # Percentiles of the time of a single step, with a wait at its end, in milliseconds; None with too few steps.
    latency_p50_ms: float | None
    latency_p90_ms: float | None
    latency_p99_ms: float | None
    warnings: list[str]  # sentences on why a number may be wrong
    tips: list[str]  # sentences on settings that may be faster
    notes: list[str]  # facts about the measurement that raise no doubt


def numbers(kind: type[Figures]) -> list[str]:
    """Returns the names of the numbers that may be unknown."""
    return [figure.name for figure in fields(kind) if figure.type == float | None]


def page(
    lines: Sequence[str],
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    lengths: Sequence[float | None] = (),
    marked: Collection[int] = (),
) -> str:
    """Returns HTML: `lines` of text, and below them a table of texts.

    Args:
        lengths: the length of each row's bar. If it is empty, the table has no bars.
        marked: the indices of the rows in bold. The last column is never bold, and its long texts are wrapped.
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
    """Formats an interval, such as `98.1 to 102`. Returns a dash if the interval is unknown."""
    return UNKNOWN if low is None or high is None else f"{significant(low)} to {significant(high)}"
