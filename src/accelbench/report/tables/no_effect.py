"""What the number of steps and pre-trained weights change: cells that differ only in one of them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.cell_columns import SETTINGS
from accelbench.report.tables.table import Column, Table, columns_of, number, tabulate_known, word
from accelbench.schema.serialize import group_key
from accelbench.schema.vocab import Mode, Protocol, Weights

NOTE = (
    "Each row: a cell, and the cell that differs only in having the fewest steps, or drawn weights instead of "
    "pre-trained ones. The ratio is its samples/s over that cell's. Warm-up is no step here, so more steps change the "
    "speed only if the device heats up or slows down."
)
STUDY_NOTE = {
    "000": "In the study's raw data, 1,024 steps take as long per image as 512: the median ratio is 1.00, of 216 cells "
    "on the GPU and of 22 on the EPYC. Its TPU has no other number of steps than 10."
}
STEPS, WEIGHTS = "steps", "weights"


@dataclass(frozen=True)
class _Changed:
    """An ok cell, and the ok one with another value of a setting that it is compared with."""

    setting: str
    base: ReportedCell
    reported: ReportedCell

    @property
    def ratio(self) -> float | None:
        """The cell's samples/s over the other's."""
        return self.reported.over(self.base, "samples_per_s")


COLUMNS: list[Column[_Changed]] = [
    *columns_of(lambda changed: changed.reported, SETTINGS, "network", "device", "precision", "batch", "options"),
    Column("setting", lambda changed: word(changed.setting)),
    Column("from", lambda changed: word(_text(changed.setting, changed.base))),
    Column("to", lambda changed: word(_text(changed.setting, changed.reported))),
    Column("samples/s", lambda changed: number(changed.reported.row["samples_per_s"])),
    Column("ratio (x)", lambda changed: number(changed.ratio, 4)),
]


def table(sweep: Sweep) -> Table | None:
    """How the speed depends on the number of steps and on pre-trained weights; None if no two cells show it."""
    ok = [reported for reported in sweep.cells if reported.is_ok and reported.cell.mode == Mode.infer]
    changed = [each for setting in (STEPS, WEIGHTS) for each in _changes(ok, setting)]
    notes = [NOTE, *filter(None, [STUDY_NOTE.get(sweep.study or "")])]
    return tabulate_known("The number of steps and the weights", COLUMNS, changed, notes)


def _changes(cells: list[ReportedCell], setting: str) -> Iterator[_Changed]:
    """The cells that differ only in the setting, each beside the one with its first value."""
    groups: dict[str, list[ReportedCell]] = defaultdict(list)
    for reported in cells:
        groups[_all_but(setting, reported)].append(reported)
    for group in groups.values():
        base, *others = sorted(group, key=lambda reported: _value(setting, reported))
        yield from (_Changed(setting, base, each) for each in others if _value(setting, each) != _value(setting, base))


def _all_but(setting: str, reported: ReportedCell) -> str:
    if setting == STEPS:
        return group_key(reported.all_but(STEPS))
    model = reported.cell.to_json()["model"]
    return group_key(reported.all_but() | {"model": model | {WEIGHTS: None}})


def _value(setting: str, reported: ReportedCell) -> int:
    """The setting's value as a number; a window has no number of steps."""
    cell = reported.cell
    if setting == WEIGHTS:
        return int(cell.model.weights == Weights.pretrained)
    return cell.steps if cell.protocol == Protocol.steps else 0


def _text(setting: str, reported: ReportedCell) -> str:
    value = _value(setting, reported)
    return f"{value:,}" if setting == STEPS else ("drawn", "pre-trained")[value]
