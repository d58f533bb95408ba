"""`accelbench.compare`: whether the second records are as fast as the first."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

from accelbench.api import html
from accelbench.api.results import Results
from accelbench.compare import answer as comparing
from accelbench.compare.answer import Terms, compared, difference
from accelbench.compare.record_sets import RecordSet, find
from accelbench.errors import UserError
from accelbench.project import workplace

Records = str | Path | Results


@dataclass(frozen=True)
class PairVerdict:
    """How the second side's cell compares with the first's.

    Attributes:
        label: of the second side's cell.
        verdict: `same`, `faster`, `slower` (the second side is), or `can't tell`.
        ratio: the second side's samples/s over the first's; None with fewer than five processes on a side.
        low, high: the 95 % interval of the ratio.
        num_first, num_second: processes that were measured.
        is_interleaved: whether the sides were interleaved, or a verdict was wanted anyway.
    """

    label: str
    verdict: str
    ratio: float | None
    low: float | None
    high: float | None
    num_first: int
    num_second: int
    is_interleaved: bool
    _comparison: comparing.Comparison = field(repr=False, compare=False)

    def is_slower_by(self, share: float) -> bool:
        """Whether the whole interval lies below `1 - share`: what `--fail-if slower:5%` checks, for 0.05."""
        return self._comparison.is_slower_by(share)

    def __repr__(self) -> str:
        """One line, as `accelbench compare` prints it."""
        return f"{self.label}: {self.verdict}, {difference(self._comparison)}"


class Comparison(Sequence[PairVerdict]):
    """A verdict for each pair of cells.

    Attributes:
        names: of the two sides.
        varied: the settings that were compared -> their values on either side.
        warnings: what a reader of the verdicts should know.
    """

    def __init__(
        self,
        pairs: Sequence[PairVerdict],
        names: tuple[str, str],
        varied: dict[str, tuple[list[str], list[str]]],
        warnings: Sequence[str],
    ) -> None:
        self._pairs, self.names, self.varied, self.warnings = list(pairs), names, varied, list(warnings)

    @overload
    def __getitem__(self, index: int) -> PairVerdict: ...

    @overload
    def __getitem__(self, index: slice) -> list[PairVerdict]: ...

    def __getitem__(self, index: int | slice) -> PairVerdict | list[PairVerdict]:
        return self._pairs[index]

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[PairVerdict]:
        return iter(self._pairs)

    @property
    def counts(self) -> dict[str, int]:
        """Verdict -> how many pairs have it."""
        return dict(Counter(pair.verdict for pair in self._pairs))

    def is_slower_by(self, share: float) -> bool:
        """Whether any pair is; see `PairVerdict.is_slower_by`."""
        return any(pair.is_slower_by(share) for pair in self._pairs)

    def _lines(self) -> list[str]:
        varied = [f"Compared: {name}: {', '.join(a)} | {', '.join(b)}" for name, (a, b) in self.varied.items()]
        return [f"A: {self.names[0]}", f"B: {self.names[1]}", *varied]

    def __repr__(self) -> str:
        """What was compared, and a line for each pair."""
        return "\n  ".join([*self._lines(), *map(repr, self._pairs), *self.warnings])

    def _repr_html_(self) -> str:
        """For notebooks: a table of the verdicts."""
        rows = [[pair.label, pair.verdict, difference(pair._comparison)] for pair in self._pairs]
        return html.page([*self._lines(), *self.warnings], html.table(["cell", "B is", "B against A"], rows))


def compare(a: Records, b: Records, margin: float = comparing.MARGIN, *, anyway: bool = False) -> Comparison:
    """Whether `b` is as fast as `a`, pair by pair, as `accelbench compare` answers from records.

    Args:
        a: a folder of records, or `FOLDER@WORD`; or the results of `run` or `read`.
        b: the same.
        margin: differences that count as the same, as a share: 0.02 for 2 %.
        anyway: whether to compare even if model, data, mode or protocol differ, or if the sides were not interleaved.

    Raises:
        UserError: there are no such records, they have some in common, or what they measured can't be compared.
    """
    if not isinstance(margin, int | float) or isinstance(margin, bool) or not 0 <= margin < 1:
        raise UserError(f"margin={margin}: should be a share from 0 to below 1, such as 0.02")
    first, second = _records(a), _records(b)
    found = compared(first, second, Terms(margin=margin, anyway=anyway))
    pairs = [
        PairVerdict(
            label=pair.label,
            verdict=comparison.verdict(margin).value,
            ratio=comparison.ratio,
            low=comparison.low,
            high=comparison.high,
            num_first=comparison.num_first,
            num_second=comparison.num_second,
            is_interleaved=comparison.interleaved,
            _comparison=comparison,
        )
        for pair, comparison in found.pairs
    ]
    return Comparison(pairs, (first.name, second.name), dict(found.pairing.varied), found.warnings)


def _records(given: Records) -> RecordSet:
    if not isinstance(given, Results):
        place = workplace()
        return find(str(given), place.root, place.records)
    found = [process for each in given for process in each._cell.processes]
    processes = [each.compared for each in found if each.compared is not None]
    if not processes:
        raise UserError(f"{given.folder}: the results have no records")
    return RecordSet(name=str(given.folder), processes=processes, notes=given.notes)
