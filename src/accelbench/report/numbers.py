"""Numbers as people read them."""

import math

UNKNOWN = "–"


def significant(value: float | None, digits: int = 3) -> str:
    """`value` with so many significant digits and thousands separators; a dash where it is unknown."""
    if value is None:
        return UNKNOWN
    rounded = float(f"{value:.{digits - 1}e}")
    if rounded == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(rounded)))
    if magnitude < -4:
        return f"{rounded:.{digits - 1}e}"
    return f"{rounded:,.{max(digits - 1 - magnitude, 0)}f}"


def exact(value: float | None) -> str:
    """`value` with every digit that it was given with and thousands separators; a dash where it is unknown."""
    return UNKNOWN if value is None else f"{value:,}"


def seconds(value: float | None, *, estimated: bool) -> str:
    """A time in seconds; `~` marks it as estimated, on the number itself."""
    return ("~" if estimated and value is not None else "") + significant(value)
