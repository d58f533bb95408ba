"""How far two cells are apart: one ratio, one word, one reason, one text, which every surface shows."""

from dataclasses import dataclass

from accelbench.answers.cells import MeasuredCell
from accelbench.compare.command_words import settling_command
from accelbench.compare.sureness import NOTE as NOTE
from accelbench.compare.sureness import Judgement, judge
from accelbench.compare.sureness import Word as Word
from accelbench.presentation import significant


@dataclass(frozen=True, kw_only=True)
class Gap(Judgement):
    """How many times as fast the first cell is as the second, and how sure that is."""

    first: MeasuredCell
    second: MeasuredCell

    @property
    def text(self) -> str:
        """The ratio as everything says it, such as `1.31 times as fast`."""
        return f"{significant(self.ratio)} times as fast"

    @property
    def how_sure(self) -> str:
        """The word with its reason, such as `can't tell: the intervals overlap`."""
        return f"{self.word}: {self.reason}" if self.reason else self.word.value

    @property
    def command(self) -> str | None:
        """The command that may decide; None if interleaved processes have decided or could not, or if none is short."""
        return None if self.is_interleaved else settling_command(self.first.cell, self.second.cell)


def gap(first: MeasuredCell, second: MeasuredCell) -> Gap:
    """How many times as fast `first` is as `second`, both with a speed.

    The same two cells get the same word in either order, and reciprocal ratios.
    """
    is_turned = second.measured_key < first.measured_key
    one, other = (second, first) if is_turned else (first, second)
    found = one.judged.get(other.measured_key)
    if found is None:
        found = one.judged[other.measured_key] = judge(one.side, other.side)
    return Gap(first=first, second=second, **vars(found.turned if is_turned else found))
