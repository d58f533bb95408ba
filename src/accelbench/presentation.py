"""Texts of numbers and durations."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from accelbench.schema.text import clean

if TYPE_CHECKING:
    from rich.console import Console

    from accelbench.schema.measurement import Check

# A command, an address or a path, and no unit such as samples/s.
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
TERA = 1e13  # operations per second from which they are given in TFLOP/s


def checked_words(checks: "Sequence[Check]", *, fully: bool) -> str:
    """What was observed of a cell's promises, and over what share of its work: `times 99 %; outputs 25 %; ...`.

    Empty in older records. With `fully`, each with the words of what was observed.
    """
    parts = []
    for check in checks:
        share = "" if check.share is None else f" {100 * check.share:.3g} %"
        has_words = fully or check.share is None
        parts.append(f"{check.promise}{share}{f' ({check.observed})' if has_words else ''}")
    return "; ".join(parts)


def seconds_of(text: str) -> float | None:
    """The seconds of a time that the user wrote, such as `90s`, `5m` or `2h`; None if it is no such time, or 0."""
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([smh])", text)
    return (float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]] or None) if found else None


def significant(value: float | None, digits: int = 3) -> str:
    """`value` with `digits` significant digits and thousands separators; a dash if unknown."""
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
    """The unit for operations per second as large as `rate`, and how many of them it is: `GFLOP/s` is 1e9."""
    prefix, size = ("T", 1e12) if rate >= TERA else ("G", 1e9)
    return f"{prefix}{'OP/s' if is_quantized else 'FLOP/s'}", size


def shortened(text: str, width: int) -> str:
    """`text`, or more of its beginning than of its end with an ellipsis between them, `width` characters in all."""
    num = 11 * width // 20  # so that a model's name stays
    return text if len(text) <= width else f"{text[:num]}…{text[num + 1 - width :]}"


def counted(num: int, thing: str) -> str:
    """Such as `1 job`, `3,000 jobs`, `2 processes`."""
    if num == 1:
        return f"1 {thing}"
    return f"{num:,} {thing}es" if thing.endswith("s") else f"{num:,} {thing}s"


def and_more(num: int, thing: str) -> str:
    """Such as `and 1 more warning`, `and 3 more warnings`."""
    return f"and {counted(num, f'more {thing}')}"


def exact(value: float | None) -> str:
    """`value` with all of its digits and thousands separators; a dash if unknown."""
    return UNKNOWN if value is None else f"{value:,}"


def say(console: "Console", line: object, style: str = "") -> None:
    """Prints a line: on a terminal broken between words, unless it has something to copy; in a file never broken.

    It is a text of rich, or anything whose text is printed without what a terminal would take as a command.
    """
    line = line if hasattr(line, "plain") else clean(str(line))
    whole = not console.is_terminal or COPIED.search(str(line)) is not None
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=whole)
