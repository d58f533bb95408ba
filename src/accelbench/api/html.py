"""Tables with bars for notebooks: plain HTML without scripts, in the colours of the notebook's theme."""

from collections.abc import Sequence
from html import escape

from accelbench.presentation import UNKNOWN, significant
from accelbench.schema.text import clean

# The theme's text colour shows on light and dark pages; the bars' blue has contrast to both.
BAR = "<div style='width:{:.0f}px;height:12px;background:#3d8bd4'></div>"
BAR_WIDTH = 200  # pixels, of the longest
CELL = "style='text-align:left;padding:2px 10px;vertical-align:top'"


def page(
    lines: Sequence[str], headings: Sequence[str], rows: Sequence[Sequence[str]], lengths: Sequence[float | None] = ()
) -> str:
    """Lines of text above a table of texts, each row of which has a bar of its one of `lengths`."""
    longest = max((length for length in lengths if length), default=1.0)
    bars = [f"<td>{BAR.format(BAR_WIDTH * (length or 0.0) / longest)}</td>" for length in lengths] or [""] * len(rows)

    def line(tag: str, texts: Sequence[str], bar: str = "") -> str:
        return f"<tr>{''.join(f'<{tag} {CELL}>{escape(clean(text))}</{tag}>' for text in texts)}{bar}</tr>"

    above = "".join(f"<p style='margin:2px 0'>{escape(clean(text))}</p>" for text in lines)
    body = "".join(line("td", row, bar) for row, bar in zip(rows, bars, strict=True))
    table = f"<thead>{line('th', headings)}</thead><tbody>{body}</tbody>"
    return f"<div>{above}<table style='border-collapse:collapse'>{table}</table></div>"


def interval(low: float | None, high: float | None) -> str:
    """Two ends, such as `98.1 to 102`; a dash if unknown."""
    return UNKNOWN if low is None or high is None else f"{significant(low)} to {significant(high)}"
