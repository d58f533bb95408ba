"""`accelbench.compare` decides whether the cells of the second side are as fast as the cells of the first side."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accelbench.answers.comparison import RecordSet, compared, difference, find
from accelbench.answers.sureness import MARGIN, SpeedRatio
from accelbench.api.results import Results
from accelbench.errors import UserError

Records = str | Path | Results


@dataclass(frozen=True)
class PairVerdict:
    """The comparison of one cell of the second side with the matching cell of the first side."""

    label: str  # label of the second side's cell
    verdict: str  # of the second side's cell: `same`, `faster`, `slower` or `can't tell`
    ratio: float | None  # the second cell's samples/s divided by the first's; None if one has fewer than five processes
    low: float | None  # 95 % interval of the ratio
    high: float | None
    _comparison: SpeedRatio = field(repr=False, compare=False)

    def __repr__(self) -> str:
        """One line, as `accelbench compare` prints it."""
        return f"{self.label}: {self.verdict}, {difference(self._comparison)}"


class Comparison(list[PairVerdict]):
    """A verdict for each pair of cells."""

    def __init__(self, pairs: Sequence[PairVerdict], about: Sequence[str], warnings: Sequence[str]) -> None:
        super().__init__(pairs)
        self.about = list(about)  # lines: the two sides, and the settings that were compared
        self.warnings = list(warnings)  # what a reader of the verdicts should know

    def is_slower_by(self, share: float) -> bool:
        """Is true if a pair's whole interval is below `1 - share`. 0.05 does the same as `--fail-if slower:5%`."""
        return any(pair._comparison.is_slower_by(share) for pair in self)

    def __repr__(self) -> str:
        """What was compared, and a line for each pair."""
        return "\n  ".join([*self.about, *map(repr, self), *self.warnings])


def compare(a: Records, b: Records, margin: float = MARGIN, *, anyway: bool = False) -> Comparison:
    """Compares the speeds in each pair of cells from `a` and `b`, as `accelbench compare` does with records.

    Args:
        a: the results of `run` or `read`; or a folder of records; or `FOLDER@WORD`, such as `results@main`: the records
            in FOLDER whose git revision, branch or hardware matches WORD.
        b: the other side: records or results. Each ratio is a speed of `b` divided by a speed of `a`.
        margin: differences up to this share give the verdict `same`. 0.02 is 2 %.
        anyway: whether to compare even if model, data, mode or protocol differ, or if the sides were not interleaved.

    Raises UserError: there are no such records, the sides have a record in common, or the sides are not comparable.
    """
    if not isinstance(margin, int | float) or isinstance(margin, bool) or not 0 <= margin < 1:
        raise UserError(f"margin={margin}: should be a share from 0 to below 1, such as 0.02")
    first, second = _records(a), _records(b)
    answer = compared(first, second, anyway=anyway)
    pairs = []
    for pair, speeds in answer.pairs:
        verdict = speeds.verdict(margin).value
        pairs.append(PairVerdict(pair.label, verdict, speeds.ratio, speeds.low, speeds.high, speeds))
    about = [f"A: {first.name}", f"B: {second.name}"]
    about += [f"Compared: {name}: {values}" for name, values in answer.varied.items()]
    return Comparison(pairs, about, answer.warnings)


def _records(side: Records) -> RecordSet:
    if not isinstance(side, Results):
        return find(str(side))
    processes = []
    for result in side:
        processes += [process for process in result._cell.processes if process.record]
    if not processes:
        raise UserError(f"{side.folder}: the results have no records")
    return RecordSet(name=str(side.folder), processes=processes, notes=side.notes)
