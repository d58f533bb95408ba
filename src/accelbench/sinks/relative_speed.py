"""The speeds of a sweep's records relative to each other, so that runs of several models compare in one chart."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelbench.compare.command_words import settling_command
from accelbench.compare.confidence import Sureness, against_fastest, verdict_text
from accelbench.judging.row import summarise
from accelbench.schema.cell import CHOSEN_SETTINGS
from accelbench.schema.record import Record, Row, number_of
from accelbench.schema.serialize import group_key
from accelbench.schema.vocab import Status

FASTEST = "fastest"
PROCESS = ("seed", "repeat")  # settings that tell the processes of one cell apart


@dataclass(frozen=True)
class RelativeSpeed:
    """The speed of an ok record.

    Attributes:
        share: of the samples/s of `fastest`; other processes of its cell may lie above 1.
        fastest: the median process of the fastest cell that did the same thing on the same machine.
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
        cells = [_typical_first(cell) for cell in _grouped(group, PROCESS)]
        of_fastest = max(cells, key=lambda cell: cell[0].rate)
        if len(group) > 1:
            for cell in cells:
                found += _of_cell(cell, of_fastest)
    return found


def _grouped(measured: Iterable[_Measured], ignored: Sequence[str]) -> list[list[_Measured]]:
    """Those with a speed, in groups that are equal but for the `ignored` settings, of one machine each."""
    groups: dict[str, list[_Measured]] = {}
    for each in measured:
        if each.record.status == Status.ok and each.rate > 0:
            settings = each.record.cell.settings() | dict.fromkeys(ignored)
            digest = each.record.data.digest if each.record.data else None
            machine = each.record.environment.get("machine")
            groups.setdefault(group_key([settings, digest, machine]), []).append(each)
    return list(groups.values())


def _typical_first(cell: Sequence[_Measured]) -> list[_Measured]:
    """The processes of a cell, the one with the median speed first: the fastest one would flatter it."""
    by_speed = sorted(cell, key=lambda each: each.rate)
    typical = by_speed.pop(len(by_speed) // 2)
    return [typical, *by_speed]


def _of_cell(cell: Sequence[_Measured], of_fastest: Sequence[_Measured]) -> list[RelativeSpeed]:
    """The processes of a cell, compared with those of the fastest cell; of both the typical one is the first."""
    fastest, text, command = of_fastest[0], FASTEST, None
    if cell is not of_fastest:
        found = against_fastest(cell, of_fastest)
        text = verdict_text(found, cell[0].rate / fastest.rate)
        if (
            found.sureness != Sureness.sure and found.ratio is None
        ):  # else processes in turns have decided, or could not
            command = settling_command(fastest.record.cell, cell[0].record.cell)
    return [RelativeSpeed(each.record, each.rate / fastest.rate, fastest.record, text, command) for each in cell]
