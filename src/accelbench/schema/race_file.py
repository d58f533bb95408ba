"""race.json: how a search for the best cell went: which processes ran, in order, and which cells dropped out when."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from accelbench.project import RACE
from accelbench.schema.ranges import Count, NotNegative
from accelbench.schema.record import RecordName, explained
from accelbench.schema.serialize import is_missing, load, read_json, write_json


class RaceOutcome(StrEnum):
    """What became of a cell in a search."""

    best, leads, left = "best", "leads", "may be best"  # leads: it is not decided yet whether it is the best
    dropped, over = "dropped", "over the limit"
    failed, untried = "failed", "not tried"


@dataclass(frozen=True, kw_only=True)
class RacedProcess:
    """A process of a cell."""

    record: RecordName  # the name of its record's file without ending
    cell: Count  # the number of its cell in `RaceFile.cells`
    is_full: bool  # whether it measured the cell in full; else in a short window
    value: float | None  # samples/s, milliseconds of the median step, or J/sample; None if it failed
    took_s: NotNegative  # its seconds


@dataclass(frozen=True, kw_only=True)
class RacedCell:
    """A cell of the search."""

    label: str  # as in the plan
    group: str  # what it did; only cells of one group race against each other
    outcome: RaceOutcome
    value: float | None = None  # the median over its processes, as in `RacedProcess`; None if unknown
    after: Count | None = None  # how many processes, of all cells, had run when it dropped out; None if it did not


@dataclass(frozen=True, kw_only=True)
class RaceFile:
    """The contents of a race.json."""

    by: str  # `throughput`, `latency` or `energy`
    margin: NotNegative  # the share that was asked for
    took_s: NotNegative  # seconds of all processes together
    answers: list[str]  # what was found, in sentences, two for each group
    cells: list[RacedCell]  # that can run here
    processes: list[RacedProcess]  # in their order

    def write(self, folder: Path) -> None:
        """Writes `folder`/race.json."""
        write_json(folder / RACE, asdict(self))

    @property
    def short(self) -> set[str]:
        """The names of the records of short windows whose processes gave a number."""
        return {each.record for each in self.processes if not each.is_full and each.value is not None}


def read_race(folder: Path) -> RaceFile | None:
    """Reads `folder`/race.json; None without such a file. Raises UserError: the file is not readable."""
    path = folder / RACE
    if is_missing(path):
        return None
    with explained(path, "search", "; run the search again"):
        return load(RaceFile, read_json(path), clean=True)
