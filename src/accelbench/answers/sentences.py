"""Answers. An answer names the fastest setting of one model and mode, its gain, and how sure the gain is."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from accelbench.answers.cells import Gap, MeasuredCell, Word
from accelbench.answers.reference import Group, Limit, groups
from accelbench.answers.words import MODES, data_text, model_text, speed_text, token_times
from accelbench.judging.warnings import output_error_text
from accelbench.presentation import significant

MAX_SHOWN = 4
REFERENCE = "reference"


@dataclass(frozen=True)
class Answer:
    """The recommendation for one model and mode."""

    group: Group
    limit: Limit | None = None  # on the latency of the group's cells

    @property
    def fastest(self) -> MeasuredCell:
        """The fastest cell."""
        return self.group.fastest

    @property
    def rate(self) -> str:
        """The fastest cell's speed with its unit."""
        return speed_text(self.fastest.cell, self.fastest.speed)

    @property
    def what(self) -> str:
        """The model and the mode, such as `resnet18, inference`."""
        return f"{model_text(self.fastest)}, {MODES[self.fastest.cell.mode]}"

    @property
    def data(self) -> str:
        """The data and their pipeline, such as `random 3x224x224 host`, and what distinguishes the group (`where`)."""
        return ", ".join(filter(None, [data_text(self.fastest), self.group.where]))

    @property
    def title(self) -> str:
        """The subject of the answer, such as `resnet18, inference (random 3x224x224)`."""
        return f"{self.what} ({self.data})"

    @cached_property
    def others(self) -> list[MeasuredCell]:
        """The fastest cell of each setting. The fastest setting is left out. Sorted by speed.

        If there is only one setting, the result is all its cells except the fastest.
        """
        return self.group.others or self.group.cells[1:]

    @property
    def lead(self) -> Gap | None:
        """The fastest cell's speed divided by the speed of its rival (`Group.rival`). None without a rival."""
        return self.group.lead

    @property
    def best(self) -> Gap | None:
        """The largest gain above 1 that is sure or likely. None if there is no such gain."""
        return next((gain for gain in self.group.gains if gain.is_told and gain.ratio > 1), None)

    @property
    def gives(self) -> str:
        """A sentence with the speed of the fastest cell."""
        return f"{self.group.text(self.fastest)} gives {self.rate}{self._latency}."

    @property
    def sentence(self) -> str:
        """A sentence that names the fastest setting, its speed divided by the rival's, and how sure this ratio is."""
        within = "" if self.limit is None else f" within {self.limit}"
        first = self.group.text(self.fastest)
        rate = self.rate + self._latency
        lead = self.lead
        if lead is None:
            if within:
                return f"{self.gives} No other setting with this batch is known to be{within}."
            if self.others:
                return f"{self.gives} No other setting was measured with this batch."
            return f"{self.gives} Nothing else was measured to compare it with."
        other = self.group.text(lead.second)
        if lead.word == Word.same:
            return f"{first} and {other} are equally fast{within}, {rate} ({lead.how_sure})."
        second = f"{lead.text} as {other}"
        if lead.word == Word.cant_tell:
            return f"{first} measured fastest{within}, {rate}; {second}, but {lead.how_sure}."
        return f"{first} is fastest here{within}, {rate}; {second} ({lead.word})."

    @property
    def remark(self) -> str:
        """Says how far the fastest cell's output is from the fp32 output. Empty unless its precision is below fp32."""
        text = output_error_text(self.fastest.cell.precision, self.fastest.number("output_error"))
        return text and f"{self.fastest.cell.precision}'s output differs from fp32's by {text}."

    @property
    def shown(self) -> list[MeasuredCell]:
        """The fastest cell of each of the fastest settings, for bars of a picture."""
        return [self.fastest, *self.others[: MAX_SHOWN - 1]]

    @property
    def _latency(self) -> str:
        if self.limit is None and (times := token_times(self.fastest.row)):
            return f", {times}"
        p50_ms = self.fastest.number("latency_p50_ms")
        if p50_ms is None:
            return ""
        if self.limit is not None and self.limit.percentile != 50:
            return f", p{self.limit.percentile} of a step {significant(self.fastest.number(self.limit.column))} ms"
        return f", median step {significant(p50_ms)} ms"


def verdict_text(group: Group, cell: MeasuredCell) -> str:
    """Returns the cell's gain over the reference cell of its batch size, and how sure the gain is.

    Returns `reference` for the reference cell. Empty if the gain is unknown, or if the group has only one setting.
    """
    if group.others and group.is_reference(cell):
        return REFERENCE
    gain = group.gain(cell)
    return f"{significant(gain.ratio)} times, {gain.word}" if gain else ""


def answers(cells: Iterable[MeasuredCell], limit: Limit | None = None) -> list[Answer]:
    """Returns an answer for each model and mode. Answers with a sure or likely lead come first, then larger leads.

    Cells whose latency is unknown or above the `limit` are left out.
    """
    inside = [group.within(limit) for group in groups(cells)]
    made = [Answer(group, limit) for group in inside if group is not None]
    return sorted(made, key=lambda answer: _order(answer.lead))


def _order(lead: Gap | None) -> tuple[bool, float]:
    return (True, 0.0) if lead is None else (not lead.is_told, -lead.ratio)
