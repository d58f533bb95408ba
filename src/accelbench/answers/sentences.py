"""Answers. An answer names the fastest setting of one model and mode, its gain, and how sure the gain is."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from accelbench.answers.cells import Gap, MeasuredCell, Word
from accelbench.answers.process import Process
from accelbench.answers.reference import Group, Limit, groups
from accelbench.answers.words import MODES, data_text, model_text, speed_text, token_times
from accelbench.judging.row import warnings_of
from accelbench.judging.warnings import output_error_text
from accelbench.presentation import significant

MAX_CANDIDATES = 4
REFERENCE = "reference"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A setting that was measured, at its fastest batch size."""

    text: str  # such as `bf16, batch 16`
    verdict: str  # the gain over the reference of its batch, and how sure it is
    share: float  # its speed divided by the fastest cell's speed
    rate: str  # its speed with its unit
    warnings: list[str]


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
                return f"{self.gives} No other setting with this batch is{within}."
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

    def larger_batch(self, planned: Iterable[Process]) -> str:
        """Says that a larger batch may be faster. Empty unless the fastest cell has the largest planned batch."""
        fastest = self.fastest.cell
        alike = [
            process.cell
            for process in planned
            if (process.cell.model, process.cell.mode) == (fastest.model, fastest.mode)
        ]
        sizes = {cell.batch_size for cell in alike}
        if self.limit is not None or len(sizes) == 1 or fastest.batch_size < max(sizes):
            return ""
        return f"No batch above {fastest.batch_size:,} was tried: a larger one may be faster."

    @property
    def candidates(self) -> list[Candidate]:
        """The fastest settings, as bars of a picture."""
        return [
            Candidate(
                text=self.group.text(cell),
                verdict=verdict_text(self.group, cell),
                share=(cell.speed or 0.0) / (self.fastest.speed or 1.0),
                rate=speed_text(cell.cell, cell.speed),
                warnings=warnings_of(cell.row),
            )
            for cell in (self.fastest, *self.others[: MAX_CANDIDATES - 1])
        ]

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
    """Returns an answer for each model and mode. The most important answer comes first (see `importance`).

    Cells whose latency is unknown or above the `limit` are left out.
    """
    inside = [group.within(limit) for group in groups(cells)]
    made = [Answer(group, limit) for group in inside if group is not None]
    return sorted(made, key=importance)


def importance(answer: Answer) -> tuple[bool, bool, bool, float]:
    """Returns a sort key.

    Its parts, in this order: answers with a `lead`; a sure or likely lead; several settings instead of only batch
    sizes; the larger lead.
    """
    lead = answer.lead
    if lead is None:
        return True, True, True, 0.0
    return False, not lead.is_told, not answer.group.others, -lead.ratio
