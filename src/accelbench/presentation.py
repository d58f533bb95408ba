"""Texts of numbers and durations."""

import math
import re
from typing import TYPE_CHECKING

from accelbench.schema.text import clean

if TYPE_CHECKING:
    from rich.console import Console


# Matches text that users copy: a command, an address or a path. A unit such as samples/s does not match.
COPIED = re.compile(r"\b(accelbench|dvc|git|pip) [a-z]|\bmake (repro|setup|ui)|://|\S/(?!s\b)\S")


def duration(seconds: float) -> str:
    """A duration as text, such as `45 s`, `12 min`, `3.5 h` or `14 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours = seconds / 3600
    if hours < 1.5:
        return f"{seconds / 60:.0f} min"
    return f"{hours:.1f} h" if hours < 9.95 else f"{hours:.0f} h"


UNKNOWN = "–"
TERA = 1e13  # from this many operations per second the unit is TFLOP/s


def seconds_of(text: str) -> float | None:
    """Returns the seconds of a time such as `90s`, `5m` or `2h`. Returns None for 0 and for any other text."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smh])", text)
    return (float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]] or None) if found else None


def significant(value: float | None, digits: int = 3) -> str:
    """Formats `value` with `digits` significant digits and thousands separators. Returns a dash if `value` is None."""
    if value is None:
        return UNKNOWN
    rounded = float(f"{value:.{digits - 1}e}")
    if rounded == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(rounded)))
    if magnitude < -4:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:,.{max(digits - 1 - magnitude, 0)}f}"


def unit_of_work(rate: float, *, is_quantized: bool) -> tuple[str, float]:
    """Returns the unit for `rate` operations per second, and the factor of this unit: `GFLOP/s` and 1e9."""
    prefix, size = ("T", 1e12) if rate >= TERA else ("G", 1e9)
    return f"{prefix}{'OP/s' if is_quantized else 'FLOP/s'}", size


def shortened(text: str, width: int) -> str:
    """Shortens `text` to at most `width` characters. An ellipsis replaces the part that is left out."""
    num = 11 * width // 20  # the beginning gets more room, because it has the model's name
    return text if len(text) <= width else f"{text[:num]}…{text[num + 1 - width :]}"


def counted(num: int, thing: str) -> str:
    """A number with its noun, such as `1 job`, `3,000 jobs` or `2 processes`."""
    if num == 1:
        return f"1 {thing}"
    return f"{num:,} {thing}es" if thing.endswith("s") else f"{num:,} {thing}s"


def and_more(num: int, thing: str) -> str:
    """The end of a shortened list, such as `and 1 more warning` or `and 3 more warnings`."""
    return f"and {counted(num, f'more {thing}')}"


def exact(value: float | None) -> str:
    """Formats `value` with all of its digits and thousands separators. Returns a dash if `value` is None."""
    return UNKNOWN if value is None else f"{value:,}"


def say(console: "Console", line: object, style: str = "") -> None:
    """Prints a line. On a terminal, breaks a long line between words, unless it has a command, path or address to copy.

    `line` is a text of rich, or any other object. An object's text is printed without terminal control characters.
    """
    line = line if hasattr(line, "plain") else clean(str(line))
    whole = not console.is_terminal or COPIED.search(str(line)) is not None
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=whole)
