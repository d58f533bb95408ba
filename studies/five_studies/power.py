"""What study 000 concludes of its GPU's power: how it grows with the batch and the precision, beside ours."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

from accelbench.report.read import Sweep
from accelbench.report.tables.table import Table, count, number, tabulate_known
from accelbench.schema.vocab import Mode, Precision
from five_studies import raw
from five_studies.published import by_place


class _Step(NamedTuple):
    """A setting that grows, and the ratio of the powers that the study's text has for it."""

    setting: str
    base: Any
    other: Any
    printed: float


STEPS: Sequence[_Step] = (
    _Step("batch_size", 16, 32, 1.11),
    _Step("batch_size", 32, 64, 1.02),
    _Step("precision", "float16", "bfloat16", 1.01),
    _Step("precision", "float16", "float32", 1.28),
    _Step("precision", "float32", "float64", 1.20),
)
COLUMNS = by_place(
    *("setting", "from", "to", "published (x)", "from its raw data (x)"),
    *("ours: lowest (x)", "ours: highest (x)", "ours: pairs of cells"),
)
NOTES = [
    "Published: ratios of mean powers, read once after each run, over three GPUs of which two were idle: of one GPU "
    'they would be larger. Its "float32" is TF32. Ours: the mean power in the steady state, of each pair of cells on a '
    "GPU that differ only in this setting."
]


def table(sweep: Sweep) -> Table | None:
    """The ratios that the study prints, what its raw data gives, and ours; None of another study."""
    if sweep.study != raw.STUDY:
        return None
    lines = []
    for step in STEPS:
        ours = list(_ours(sweep, step))
        ends = (number(min(ours, default=None)), number(max(ours, default=None)), count(len(ours)))
        name, printed = step.setting.replace("_", " "), number(step.printed)
        lines.append([name, str(step.base), str(step.other), printed, number(_of_raw_data(step), 4), *ends])
    return tabulate_known("The GPU's power by batch and precision", COLUMNS, lines, NOTES)


def _of_raw_data(step: _Step) -> float:
    def mean(value: object) -> float:
        return fmean(run.power or 0.0 for run in raw.compared(raw.A100) if getattr(run, step.setting) == value)

    return mean(step.other) / mean(step.base)


def _ours(sweep: Sweep, step: _Step) -> Iterator[float]:
    cells = [each for each in sweep.cells if each.is_ok and each.cell.mode == Mode.infer]
    powers = [(each.cell, watts) for each in cells if (watts := each.number("gpu_power_w"))]
    values: list[Any] = [step.base, step.other]
    if step.setting == "precision":
        values = [Precision.tf32 if each == "float32" else raw.PRECISIONS[each] for each in values]
    for cell, watts in powers:
        if getattr(cell, step.setting) == values[0]:
            wanted = replace(cell, **{step.setting: values[1]})
            yield from (more / watts for other, more in powers if other == wanted)
