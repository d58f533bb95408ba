"""The speeds of a sweep's records relative to each other, so that runs of several models compare in one chart."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelbench.compare.command_words import settling_command
from accelbench.compare.confidence import Sureness, against_fastest, verdict_text
from accelbench.judging.row import summarise
from accelbench.schema.cell import CHOSEN_SETTINGS
from accelbench.schema.record import Record, Row, number_of
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Status

FASTEST = "fastest"
PROCESS = ("seed", "repeat")  # settings that tell the processes of one cell apart


@dataclass(frozen=True)
class RelativeSpeed:
    """The speed of an ok record.

    Attributes:
        share: of the samples/s of the fastest record that did the same thing, in (0, 1].
        fastest: that one.
        verdict: `fastest`, or how far its cell is behind and how sure that is, such as `21 % slower, likely`.
        command: what may say which of the two cells is faster; None if processes
            in turns have decided, or could not, or if no short command does.
    """

    record: Record
    share: float
    fastest: Record
    verdict: str
    command: str | None = None

    @property
    def words(self) -> str:
        """The verdict, with the command that may decide."""
        return f"{self.verdict}; this may decide: `{self.command}`" if self.command else self.verdict


@dataclass(frozen=True)
class _Measured:
    record: Record

    @cached_property
    def row(self) -> Row:
        return summarise(self.record)

    @property
    def rate(self) -> float:
        return number_of(self.row, "samples_per_s") or 0.0


def relative_speeds(records: Iterable[Record]) -> list[RelativeSpeed]:
    """The speeds of ok records in groups of at least two that did the same thing with other `CHOSEN_SETTINGS`."""
    found = []
    for group in _grouped(map(_Measured, records), CHOSEN_SETTINGS):
        if len(group) > 1:
            fastest = max(group, key=lambda each: each.rate)
            cells = _grouped(group, PROCESS)
            (of_fastest,) = (cell for cell in cells if fastest in cell)
            for cell in cells:
                found += _of_cell(cell, fastest, None if cell is of_fastest else of_fastest)
    return found


def _grouped(measured: Iterable[_Measured], ignored: Sequence[str]) -> list[list[_Measured]]:
    """Those with a speed, in groups that are equal but for the `ignored` settings."""
    groups: dict[str, list[_Measured]] = {}
    for each in measured:
        if each.record.status == Status.ok and each.rate > 0:
            settings = each.record.cell.settings() | dict.fromkeys(ignored)
            digest = each.record.data.digest if each.record.data else None
            groups.setdefault(canonical_json([settings, digest]), []).append(each)
    return list(groups.values())


def _of_cell(
    cell: Sequence[_Measured], fastest: _Measured, of_fastest: Sequence[_Measured] | None
) -> list[RelativeSpeed]:
    """The processes of a cell; `of_fastest` are those of the fastest one, None if it is this one."""
    if of_fastest is None:
        return [RelativeSpeed(each.record, each.rate / fastest.rate, fastest.record, FASTEST) for each in cell]
    found = against_fastest(cell, of_fastest)
    text = verdict_text(found, cell[0].rate / fastest.rate)
    was_in_turns = found.sureness == Sureness.sure or found.ratio is not None
    command = None if was_in_turns else settling_command(fastest.record.cell, cell[0].record.cell)
    return [RelativeSpeed(each.record, each.rate / fastest.rate, fastest.record, text, command) for each in cell]
