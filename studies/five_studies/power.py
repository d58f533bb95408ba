"""The effect of study 000's settings: batch and precision on the GPU's power, steps on the time per image."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median
from typing import Any, NamedTuple

from accelbench.answers.cells import MeasuredCell
from accelbench.report.read import Sweep
from accelbench.report.table import Table, count, number, tabulate_known
from accelbench.schema.cell import Device, Mode, Precision, Protocol
from five_studies import raw
from five_studies.published import by_place


class _Step(NamedTuple):
    """A change of one setting, and the study's printed ratio: the power after the change over the power before."""

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
    "setting",
    "from",
    "to",
    "published (x)",
    "from its raw data (x)",
    "ours: lowest (x)",
    "ours: highest (x)",
    "ours: pairs of cells",
)
NOTES = [
    "Published: ratios of mean powers, read once after each run. The means are over three GPUs, but two were idle: the "
    'ratios of the busy GPU would be larger. The study\'s "float32" is TF32. Ours: ratios of mean powers in the steady '
    "state, for each pair of cells on a GPU that differ only in this setting."
]


def table(sweep: Sweep) -> Table | None:
    """The ratios in the study's text, those from its raw data, and ours. None for other studies."""
    if sweep.study != raw.STUDY:
        return None
    lines = []
    for step in STEPS:
        ours = list(_ours(sweep.cells, step, lambda reported: reported.number("gpu_power_w")))
        ends = (number(min(ours, default=None)), number(max(ours, default=None)), count(len(ours)))
        name = step.setting.replace("_", " ")
        printed = number(step.printed)
        lines.append([name, str(step.base), str(step.other), printed, number(_of_raw_data(step), 4), *ends])
    return tabulate_known("The GPU's power by batch and precision", COLUMNS, lines, NOTES)


def _of_raw_data(step: _Step) -> float:
    def mean(value: object) -> float:
        return fmean(run.power or 0.0 for run in raw.compared(raw.A100) if getattr(run, step.setting) == value)

    return mean(step.other) / mean(step.base)


def _ours(cells: Sequence[MeasuredCell], step: _Step, value: Callable[[MeasuredCell], float | None]) -> Iterator[float]:
    """The ratio of each pair of ok cells with the study's two values of the setting, and all others equal."""
    values: list[Any] = [step.base, step.other]
    if step.setting == "precision":
        values = [Precision.tf32 if each == "float32" else raw.PRECISIONS[each] for each in values]
    ok = [each for each in cells if each.is_ok and each.cell.mode == Mode.infer]
    known = [(each.cell, number) for each in ok if (number := value(each))]
    for cell, base in known:
        if getattr(cell, step.setting) == values[0]:
            wanted = replace(cell, **{step.setting: values[1]})
            yield from (other / base for other_cell, other in known if other_cell == wanted)


# The measured fields of a run. All other fields are settings.
UNCOMPARED: dict[str, Any] = dict.fromkeys(("launch_ms", "copying_ms", "total_ms"), 0.0)
UNCOMPARED |= dict.fromkeys(("utilization", "power", "temperature", "peak_memory"))
NUM_STEPS = [(32, 512), (512, 1024)]
NUM_STEPS_COLUMNS = by_place(
    "device",
    "from",
    "to",
    "published: lowest (x)",
    "published: median (x)",
    "published: highest (x)",
    "published: pairs of runs",
    "ours: lowest (x)",
    "ours: median (x)",
    "ours: highest (x)",
    "ours: pairs of cells",
)
NUM_STEPS_NOTES = [
    "The time per image with more steps over the time with fewer steps, for runs that are equal in all other settings. "
    "A ratio other than 1 is noise, or an unsteady start. Published: from the study's raw data, without a warm-up. "
    "A lowest ratio far from the median is from single runs: on the GPU, the study's first run (efficientnet_b0, "
    "float16, batch 16, 512 steps) took 12 times as long per image as the next run."
]


def num_steps_table(sweep: Sweep) -> Table | None:
    """The effect of the number of steps, in the study's raw data and in our cells. None for other studies."""
    if sweep.study != raw.STUDY:
        return None
    lines = []
    for device in (Device.cpu, Device.gpu, Device.tpu):
        on_device = [each for each in sweep.cells if each.cell.device == device]
        own = sorted({each.cell.steps for each in on_device if each.cell.protocol == Protocol.steps and each.is_ok})
        for ends in dict.fromkeys([*NUM_STEPS, *pairwise(own)]):
            ours = list(
                _ours(on_device, _Step("steps", *ends, 1.0), lambda each: 1 / each.speed if each.speed else None)
            )
            of_both = [
                [min(each), median(each), max(each), len(each)] if each else [None] * 4
                for each in (_of_runs(device, *ends), ours)
            ]
            if any(each[-1] for each in of_both):
                shown = [entry for *ratios, pairs in of_both for entry in (*map(number, ratios), count(pairs))]
                lines.append([device, *map(str, ends), *shown])
    return tabulate_known("Time per image by the number of steps", NUM_STEPS_COLUMNS, lines, NUM_STEPS_NOTES)


def _of_runs(device: Device, base: int, other: int) -> list[float]:
    times = {replace(run, **UNCOMPARED): run.total_ms for run in raw.runs() if raw.DEVICES[run.machine] == device}
    pairs = ((more, times.get(replace(run, steps=base))) for run, more in times.items() if run.steps == other)
    return [more / less for more, less in pairs if less]
