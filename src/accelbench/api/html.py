"""Tables and bar charts for notebooks: plain HTML and SVG without scripts, in the colours of the notebook's theme."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from accelbench.presentation import UNKNOWN, significant
from accelbench.schema.text import clean

MAX_ROWS = 40  # of a table; a frame or the report has all
MAX_LABEL = 60  # characters beside a bar
# The theme's text colour shows on light and dark pages; the bars' blue has contrast to both.
BAR_COLOUR = "#3d8bd4"
ROW, BAR, CHARACTER, WIDTH, NUMBER = 22, 14, 6.7, 320, 60  # pixels
CELL = 'style="text-align:{};padding:2px 10px;vertical-align:top{}"'
TABLE = "border-collapse:collapse;font-size:inherit;color:inherit"


@dataclass(frozen=True)
class Bar:
    """A bar of a chart, with its interval; None if unknown."""

    label: str
    value: float
    low: float | None
    high: float | None


def page(lines: Sequence[str], *parts: str) -> str:
    """Lines of text above tables and pictures."""
    shown = "".join(f"<p style='margin:2px 0'>{_text(line)}</p>" for line in lines)
    return f"<div>{shown}{''.join(parts)}</div>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts; columns of numbers are aligned to the right."""
    sides = ["right" if _is_numeric([row[index] for row in rows]) else "left" for index in range(len(headings))]

    def line(tag: str, texts: Sequence[str]) -> str:
        wraps = [*[";white-space:nowrap"] * (len(sides) - 1), ""]  # the last column has the sentences
        cells = (
            f"<{tag} {CELL.format(side, wrap)}>{_text(text)}</{tag}>"
            for side, wrap, text in zip(sides, wraps, texts, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table style='{TABLE}'><thead>{line('th', headings)}</thead><tbody>{body}</tbody></table>"


def bars(found: Sequence[Bar], unit: str) -> str:
    """A horizontal bar chart as SVG; the line at the end of a bar is its 95 % interval."""
    labels = [bar.label if len(bar.label) <= MAX_LABEL else f"{bar.label[: MAX_LABEL - 1]}…" for bar in found]
    left = 10 + CHARACTER * max(map(len, labels), default=0)
    longest = max((max(bar.value, bar.high or 0.0) for bar in found), default=0.0) or 1.0
    caption = f"{unit}, with 95 % intervals"
    lines = [f"<text x='{left:.1f}' y='{ROW / 2 + 4:.1f}'>{_text(caption)}</text>"]
    for index, (bar, label) in enumerate(zip(found, labels, strict=True), 1):
        top, middle = index * ROW + (ROW - BAR) / 2, index * ROW + ROW / 2
        end = number_at = left + WIDTH * bar.value / longest
        whisker = ""
        if bar.low is not None and bar.high is not None:
            low, high = (left + WIDTH * value / longest for value in (bar.low, bar.high))
            number_at = max(end, high)
            path = f"M{low:.1f} {middle:.1f}H{high:.1f}" + "".join(f"M{x:.1f} {middle - 4:.1f}v8" for x in (low, high))
            whisker = f"<path d='{path}' stroke='currentColor' stroke-width='1.3' fill='none'/>"
        lines.append(
            f"<text x='{left - 6:.1f}' y='{middle + 4:.1f}' text-anchor='end'>{_text(label)}</text>"
            f"<rect x='{left:.1f}' y='{top:.1f}' width='{end - left:.1f}' height='{BAR}' fill='{BAR_COLOUR}'/>{whisker}"
            f"<text x='{number_at + 6:.1f}' y='{middle + 4:.1f}'>{_text(significant(bar.value))}</text>"
        )
    width, height = left + WIDTH + NUMBER, (len(found) + 1) * ROW
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height}' role='img' "
        f"viewBox='0 0 {width:.0f} {height}' style='max-width:100%;margin-top:6px' fill='currentColor' "
        f"font-family='monospace' font-size='11'><title>{_text(caption)}</title>"
        f"{''.join(lines)}</svg>"
    )


def interval(low: float | None, high: float | None) -> str:
    """Two ends, such as `98.1 to 102`; a dash if unknown."""
    return UNKNOWN if low is None or high is None else f"{significant(low)} to {significant(high)}"


def more(num: int) -> list[str]:
    """A line that says how many are not shown; none if all are."""
    return [f"and {num - MAX_ROWS} more: to_frame() has all"] if num > MAX_ROWS else []


def _is_numeric(texts: Sequence[str]) -> bool:
    return any(text[:1].isdigit() for text in texts) and all(text == UNKNOWN or text[:1].isdigit() for text in texts)


def _text(text: str) -> str:
    return escape(clean(text))
