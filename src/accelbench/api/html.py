"""Tables with bars for notebooks: plain HTML without scripts, in the colours of the notebook's theme."""

from collections.abc import Sequence
from html import escape

from accelbench.presentation import UNKNOWN, significant
from accelbench.schema.text import clean

MAX_ROWS = 40  # of a table; a frame or the report has all
# The theme's text colour shows on light and dark pages; the bars' blue has contrast to both.
BAR = "<div style='width:{:.0f}px;height:12px;background:#3d8bd4'></div>"
BAR_WIDTH = 200  # pixels, of the longest
CELL = 'style="text-align:{};padding:2px 10px;vertical-align:top{}"'
TABLE = "border-collapse:collapse;font-size:inherit;color:inherit"


def page(lines: Sequence[str], *parts: str) -> str:
    """Lines of text above tables."""
    shown = "".join(f"<p style='margin:2px 0'>{_text(line)}</p>" for line in lines)
    return f"<div>{shown}{''.join(parts)}</div>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], lengths: Sequence[float | None] = ()) -> str:
    """A table of texts; columns of numbers are aligned to the right, and each row has a bar of its one of `lengths`."""
    sides = ["right" if _is_numeric([row[index] for row in rows]) else "left" for index in range(len(headings))]
    longest = max((length for length in lengths if length), default=1.0)
    bars = [BAR.format(BAR_WIDTH * (length or 0.0) / longest) for length in lengths]

    def line(tag: str, texts: Sequence[str], bar: str) -> str:
        wraps = [*[";white-space:nowrap"] * (len(sides) - 1), ""]  # the last column has the sentences
        cells = (
            f"<{tag} {CELL.format(side, wrap)}>{_text(text)}</{tag}>"
            for side, wrap, text in zip(sides, wraps, texts, strict=True)
        )
        return f"<tr>{''.join(cells)}{f'<{tag}>{bar}</{tag}>' if bars else ''}</tr>"

    body = "".join(line("td", row, bar) for row, bar in zip(rows, bars or [""] * len(rows), strict=True))
    return f"<table style='{TABLE}'><thead>{line('th', headings, '')}</thead><tbody>{body}</tbody></table>"


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
