"""Training and testing time per network and device, ours beside the published ones, with speed-ups."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from accelbench.report import published
from accelbench.report.published import Published
from accelbench.report.read import ReportedCell, Sweep
from accelbench.schema.vocab import RANDOM, Device, Mode, Precision, Protocol

METRICS = {Mode.train: "train_time", Mode.infer: "test_time"}
TITLES = {Mode.train: "Training time", Mode.infer: "Testing time"}

# From the study's own precision to the least like it.
PRECISIONS = [
    Precision.fp32,
    Precision.tf32,
    Precision.fp64,
    Precision.bf16_mixed,
    Precision.fp16_mixed,
    Precision.bf16,
    Precision.fp16,
]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The settings that our cells are chosen by: the study's, or study 001's where a network has none.

    Attributes:
        epochs: None where the source does not say.
    """

    precision: Precision = Precision.fp32
    batch_size: int = 128
    epochs: int | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One network in one mode on one device: our time and the published one.

    Attributes:
        ours: the ok cell nearest to the reference; where none is ok, the nearest planned one; else None.
        time_s: of `ours`; None where it has none.
        estimated: whether `time_s` is.
        speedup: the CPU's time / this device's, of cells that are equal in all but the device; else None.
        published: the published time; None where there is none.
        published_speedup: the published CPU time / this device's.
    """

    model: str
    mode: Mode
    device: Device
    ours: ReportedCell | None
    time_s: float | None
    estimated: bool
    speedup: float | None
    published: Published | None
    published_speedup: float | None


def reference(study: str | None, model: str) -> Reference:
    """The settings that `study` ran `model` with."""
    entry = next((entry for entry in published.load(study) if entry.model == model), None)
    if entry is None:
        return Reference()
    epochs = published.find(study, model, "epochs", None)
    return Reference(
        precision=entry.precision,
        batch_size=entry.batch_size or Reference.batch_size,
        epochs=int(epochs.value) if epochs else None,
    )


def published_of(sweep: Sweep) -> list[Published]:
    """What the study published of the networks that the sweep plans: a study may be several suites."""
    models = {planned.cell.model.name for planned in sweep.cells}
    return [entry for entry in published.load(sweep.study) if entry.model in models]


def compare(sweep: Sweep, mode: Mode) -> list[Comparison]:
    """A comparison per planned network and each device that it was published or planned on, the study's first."""
    entries = [entry for entry in published_of(sweep) if entry.metric == METRICS[mode]]
    planned = [cell for cell in sweep.cells if cell.cell.mode == mode]
    models = dict.fromkeys([entry.model for entry in entries] + [cell.cell.model.name for cell in planned])
    there = {(entry.model, entry.device) for entry in entries}
    there |= {(cell.cell.model.name, cell.cell.device) for cell in planned}
    pairs = [pair for pair in product(models, Device) if pair in there]
    compared = [_compare(sweep, model, mode, device) for model, device in pairs]
    # Random images have no end: what was planned on them alone has no time to compare.
    return compared if entries or any(cell.cell.data.name != RANDOM for cell in planned) else []


def nearest(sweep: Sweep, model: str, mode: Mode, device: Device, known: str | None = None) -> ReportedCell | None:
    """The cell nearest to the reference: one that is ok wherever there is one; never a mean over cells.

    Where `known` names a column, only cells count that have a value in it.
    """
    wanted = reference(sweep.study, model)
    cells = [
        planned
        for planned in sweep.cells
        if (planned.cell.model.name, planned.cell.mode, planned.cell.device) == (model, mode, device)
        and (known is None or planned.row[known] is not None)
    ]
    return min(cells, key=lambda planned: (not planned.is_ok, *_distance(planned, wanted)), default=None)


def gain_over_cpu(planned: ReportedCell, cells: Sequence[ReportedCell], column: str) -> float | None:
    """A number of this cell over that of the CPU's cell that is equal in all but the device; None without one.

    Args:
        planned: an ok cell of another device.
        cells: where the CPU's is looked for.
        column: of `cells.csv`.
    """
    mine = planned.number(column)
    if planned.cell.device == Device.cpu or mine is None:
        return None
    for other in cells:
        if other.cell.device == Device.cpu and other.is_ok and other.all_but_device == planned.all_but_device:
            theirs = other.number(column)
            return mine / theirs if theirs else None
    return None


def one_of_each(cells: Iterable[ReportedCell]) -> list[ReportedCell]:
    """One cell per network, mode, devices, precision, engine, options and batch, where one alone is shown.

    The first that is ok, else the first: other seeds, repeats, inputs and numbers of steps are in the table of every
    cell.
    """
    first: dict[tuple[object, ...], ReportedCell] = {}
    for planned in cells:
        cell = planned.cell
        devices = (cell.device, cell.devices, cell.scaling)
        key = (cell.model.name, cell.mode, devices, cell.precision, cell.keras, cell.options, cell.batch_size)
        if key not in first or (planned.is_ok and not first[key].is_ok):
            first[key] = planned
    return list(first.values())


def _compare(sweep: Sweep, model: str, mode: Mode, device: Device) -> Comparison:
    ours = nearest(sweep, model, mode, device)
    cpu = nearest(sweep, model, mode, Device.cpu)
    theirs = published.find(sweep.study, model, METRICS[mode], device)
    their_cpu = published.find(sweep.study, model, METRICS[mode], Device.cpu)
    return Comparison(
        model=model,
        mode=mode,
        device=device,
        ours=ours,
        time_s=_time_s(ours),
        estimated=ours is not None and ours.row["time_provenance"] == "estimated",
        speedup=_speedup(cpu, ours),
        published=theirs,
        published_speedup=their_cpu.value / theirs.value if theirs and their_cpu else None,
    )


def _time_s(planned: ReportedCell | None) -> float | None:
    return planned.number("time_s") if planned is not None and planned.is_ok else None


def _speedup(cpu: ReportedCell | None, ours: ReportedCell | None) -> float | None:
    cpu_s, ours_s = _time_s(cpu), _time_s(ours)
    if cpu is None or ours is None or cpu_s is None or ours_s is None:
        return None
    return cpu_s / ours_s if cpu.all_but_device == ours.all_but_device else None


def _distance(planned: ReportedCell, wanted: Reference) -> tuple[float, ...]:
    cell = planned.cell
    return (
        len(cell.options.enabled),  # no study had any
        cell.devices,  # or more than one device
        cell.keras is not None,  # the engines stand side by side in a table of their own
        PRECISIONS.index(cell.precision) if cell.precision != wanted.precision else -1,
        abs(math.log(cell.batch_size / wanted.batch_size)),
        cell.batch_size,
        abs(math.log(cell.epochs / wanted.epochs)) if wanted.epochs and cell.mode == Mode.train else 0,
        cell.protocol != Protocol.fit,
        cell.threads is not None,
        cell.seed,
        cell.repeat,
    )
