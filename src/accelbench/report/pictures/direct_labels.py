"""Names beside what they name, moved apart where they would overlap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

FONT_SIZE = 7
LINE_HEIGHT = 1.3  # of the font's size
POINTS_PER_INCH = 72


@dataclass(frozen=True)
class Named:
    """A point of a panel with logarithmic y-axis, and its name."""

    x: float
    y: float
    text: str
    colour: str


def label_right(axes: Axes, named: Sequence[Named], height_inch: float) -> None:
    """Writes the names to the right of the panel, at the height of their points; a thin line leads to each.

    Args:
        axes: whose limits are set.
        named: in any order.
        height_inch: of the panel, about.
    """
    if not named:
        return
    low, high = map(math.log10, axes.get_ylim())
    gap = LINE_HEIGHT * FONT_SIZE / (POINTS_PER_INCH * height_inch)
    ordered = sorted(named, key=lambda each: each.y)
    places = moved_apart([(math.log10(each.y) - low) / (high - low) for each in ordered], gap)
    for each, place in zip(ordered, places, strict=True):
        axes.annotate(
            each.text,
            (each.x, each.y),
            (1.05, place),
            textcoords="axes fraction",
            fontsize=FONT_SIZE,
            color=each.colour,
            va="center",
            arrowprops={"arrowstyle": "-", "color": each.colour, "linewidth": 0.5, "alpha": 0.6, "shrinkB": 3},
        )


def moved_apart(places: Sequence[float], gap: float) -> list[float]:
    """The sorted places, moved as little as a few passes find, so that neighbours are at least `gap` apart.

    They stay between 0 and 1 as long as there is room.
    """
    found = list(places)
    for index in range(1, len(found)):
        found[index] = max(found[index], found[index - 1] + gap)
    if found and found[-1] > 1:
        found[-1] = 1.0
        for index in range(len(found) - 2, -1, -1):
            found[index] = min(found[index], found[index + 1] - gap)
    return found
