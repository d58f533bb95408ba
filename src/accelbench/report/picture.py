"""A picture of the report."""

from dataclasses import dataclass

from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture of the report.

    Attributes:
        path: relative to the report's folder.
        alt: a text that describes it.
    """

    path: str
    alt: str
    figure: Figure

    @property
    def width_inch(self) -> float:
        """The drawn width in inches."""
        return float(self.figure.get_figwidth())
