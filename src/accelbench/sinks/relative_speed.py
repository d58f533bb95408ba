"""How far the fastest cell is ahead of a process' cell, so that runs of several models compare in one chart."""

from collections.abc import Iterable
from dataclasses import dataclass

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.groups import groups
from accelbench.answers.ranking import verdict_text
from accelbench.schema.record import Record


@dataclass(frozen=True)
class RelativeSpeed:
    """How the cell of an ok record compares with the fastest cell that did the same thing in the same place.

    Attributes:
        cell: of the record; what is compared is the cell, and not the process.
        share: the cell's published speed over that of the fastest cell, at most 1.
        fastest: the typical process of the fastest cell.
        verdict: `fastest`, or such as `0.763 times as fast, likely`.
        command: what may say which of the two cells is faster; None if none is needed, or none is short.
    """

    record: Record
    cell: MeasuredCell
    share: float
    fastest: Record
    verdict: str
    command: str | None = None

    @property
    def words(self) -> str:
        """The verdict, with the command that may decide."""
        return f"{self.verdict}; this may decide: `{self.command}`" if self.command else self.verdict


def relative_speeds(cells: Iterable[MeasuredCell]) -> list[RelativeSpeed]:
    """One for each ok process whose cell did the same thing as another one, with other settings."""
    found = []
    for group in groups(cells):
        assert group.fastest.record
        for cell in group.cells if len(group.cells) > 1 else []:
            gap = group.gap_to(cell) if cell is not group.fastest else None
            share, command = (min(1.0, 1 / gap.ratio), gap.command) if gap else (1.0, None)
            own = [each.record for each in cell.processes if each.record is not None and each.is_ok]
            words = verdict_text(group, cell), command
            found += [RelativeSpeed(record, cell, share, group.fastest.record, *words) for record in own]
    return found
