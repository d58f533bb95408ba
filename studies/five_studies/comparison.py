"""Our times and a study's published ones: which of our cells is compared, and the speed-ups of both."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from accelbench.report.read import ReportedCell, Sweep
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement
from accelbench.schema.vocab import RANDOM, Device, Engine, Mode, Precision, Protocol
from five_studies import published
from five_studies.published import Published

METRICS = {Mode.train: "train_time", Mode.infer: "test_time"}
# A study's testing time is of an evaluation; ours of inference, with our evaluation beside it where one was timed.
TITLES = {Mode.train: "Training time", Mode.infer: "Testing time"}

# From the precision of most studies to the one least like it.
PRECISIONS = [Precision(word) for word in ("fp32", "tf32", "fp64", "bf16_mixed", "fp16_mixed", "bf16", "fp16", "int8")]


@dataclass(frozen=True, kw_only=True)
class ReferenceSettings:
    """The settings of the study, which our cells are chosen by; study 001's where the study names none.

    Attributes:
        epochs: None if the source does not say.
    """

    precision: Precision = Precision.fp32
    batch_size: int = 128
    epochs: int | None = None


@dataclass(frozen=True, kw_only=True)
class PublishedComparison:
    """One network in one mode on one device: our time and the published one.

    Attributes:
        ours: the ok cell nearest to the reference settings; if none is ok, the nearest planned one; else None.
        time_s: seconds of `ours`; None if unknown.
        estimated: whether `time_s` is an estimate.
        speedup: the CPU's time / this device's time, of cells that differ only in the device; else None.
        evaluation_s: for inference, seconds of one evaluation on the test set by the training cell nearest to the
            reference settings that timed any; None if unknown.
        published: the published time; None if the study has none.
        published_speedup: the published CPU time / the published time of this device.
    """

    model: str
    mode: Mode
    device: Device
    ours: ReportedCell | None
    time_s: float | None
    estimated: bool
    speedup: float | None
    evaluation_s: float | None
    published: Published | None
    published_speedup: float | None

    @property
    def work(self) -> str:
        """What `time_s` is of; see `work_text`."""
        measured = self.ours.record.measurement if self.ours and self.ours.record else None
        return work_text(self.ours.cell, measured) if self.ours and measured else ""


def work_text(cell: Cell, measured: Measurement) -> str:
    """What a cell's time is of, such as `2 x 370 samples`; empty for random images, which no whole job has."""
    trains = cell.mode == Mode.train
    num_samples = measured.num_train_samples if trains else measured.num_test_samples
    num_epochs = len(measured.epochs) or (cell.epochs if trains else 1)
    return "" if num_samples is None else f"{num_epochs} x {num_samples:,} samples"


def reference_settings(study: str | None, model: str) -> ReferenceSettings:
    """The settings that `study` ran `model` with."""
    entry = next((entry for entry in published.load(study) if entry.model == model), None)
    if entry is None:
        return ReferenceSettings()
    epochs = published.find(study, model, "epochs", None)
    return ReferenceSettings(
        precision=entry.precision,
        batch_size=entry.batch_size or ReferenceSettings.batch_size,
        epochs=int(epochs.value) if epochs else None,
    )


def published_for_sweep(sweep: Sweep) -> list[Published]:
    """The study's published numbers for the networks in the sweep's plan: several suites may share a study."""
    models = {reported.cell.model.name for reported in sweep.cells}
    return [entry for entry in published.load(sweep.study) if entry.model in models]


def compare_with_published(sweep: Sweep, mode: Mode) -> list[PublishedComparison]:
    """One comparison per network and device that was published or planned, the study's networks first."""
    entries = [entry for entry in published_for_sweep(sweep) if entry.metric == METRICS[mode]]
    cells = [reported.cell for reported in sweep.cells if reported.cell.mode == mode]
    models = dict.fromkeys([entry.model for entry in entries] + [cell.model.name for cell in cells])
    known = {(entry.model, entry.device) for entry in entries} | {(cell.model.name, cell.device) for cell in cells}
    pairs = [pair for pair in product(models, Device) if pair in known]
    compared = [_compare(sweep, model, mode, device) for model, device in pairs]
    # A sweep over random images alone has no whole job, and so no time to compare.
    return compared if entries or any(cell.data.name != RANDOM for cell in cells) else []


def nearest_cell(sweep: Sweep, model: str, mode: Mode, device: Device, known: str | None = None) -> ReportedCell | None:
    """The cell nearest to the reference settings, an ok cell first; never a mean over cells.

    With `known`, only among those that have a value in this column of `cells.csv`.
    """
    wanted = reference_settings(sweep.study, model)
    cells = [
        reported
        for reported in sweep.cells
        if (reported.cell.model.name, reported.cell.mode, reported.cell.device) == (model, mode, device)
        and (known is None or reported.row[known] is not None)
    ]
    return min(cells, key=lambda reported: (not reported.is_ok, *_distance(reported, wanted)), default=None)


def equal_on(device: Device, reported: ReportedCell, cells: Iterable[ReportedCell]) -> ReportedCell | None:
    """The ok cell on `device` that is equal to `reported` in all else; None without such a cell on another device."""
    if reported.cell.device == device:
        return None
    there = (candidate for candidate in cells if candidate.cell.device == device and candidate.is_ok)
    return next((candidate for candidate in there if candidate.key_but_device == reported.key_but_device), None)


def gain_over(device: Device, reported: ReportedCell, cells: Iterable[ReportedCell], column: str) -> float | None:
    """A cell's number over that of the cell on `device` which is equal otherwise; None if either is unknown."""
    return reported.over(equal_on(device, reported, cells), column)


def one_per_setting(cells: Iterable[ReportedCell]) -> list[ReportedCell]:
    """One cell per network, mode, devices, precision, engine, options and batch, for tables and pictures of one each.

    The first that is ok, else the first. The table of every cell shows the other seeds, repeats, inputs and step
    counts.
    """
    first: dict[tuple[object, ...], ReportedCell] = {}
    for reported in cells:
        cell = reported.cell
        devices = (cell.device, cell.devices, cell.scaling)
        engine = (cell.engine, cell.keras)
        key = (cell.model.name, cell.mode, devices, cell.precision, engine, cell.options, cell.batch_size)
        if key not in first or (reported.is_ok and not first[key].is_ok):
            first[key] = reported
    return list(first.values())


def _compare(sweep: Sweep, model: str, mode: Mode, device: Device) -> PublishedComparison:
    ours = nearest_cell(sweep, model, mode, device)
    our_cpu = nearest_cell(sweep, model, mode, Device.cpu)
    theirs = published.find(sweep.study, model, METRICS[mode], device)
    their_cpu = published.find(sweep.study, model, METRICS[mode], Device.cpu)
    return PublishedComparison(
        model=model,
        mode=mode,
        device=device,
        ours=ours,
        time_s=_time_s(ours),
        estimated=ours is not None and ours.row["time_provenance"] == "estimated",
        speedup=_speedup(our_cpu, ours),
        evaluation_s=_evaluation_s(sweep, model, device) if mode == Mode.infer else None,
        published=theirs,
        published_speedup=their_cpu.value / theirs.value if theirs and their_cpu else None,
    )


def _evaluation_s(sweep: Sweep, model: str, device: Device) -> float | None:
    trained = nearest_cell(sweep, model, Mode.train, device, known="evaluation_s")
    return trained.number("evaluation_s") if trained is not None and trained.is_ok else None


def _time_s(reported: ReportedCell | None) -> float | None:
    return reported.number("time_s") if reported is not None and reported.is_ok else None


def _speedup(cpu: ReportedCell | None, ours: ReportedCell | None) -> float | None:
    cpu_s, ours_s = _time_s(cpu), _time_s(ours)
    if cpu is None or ours is None or cpu_s is None or ours_s is None:
        return None
    return cpu_s / ours_s if cpu.key_but_device == ours.key_but_device else None


def _distance(reported: ReportedCell, wanted: ReferenceSettings) -> tuple[float, ...]:
    """How far a cell's settings are from the reference, the most important setting first."""
    cell = reported.cell
    return (
        len(cell.options.enabled),  # no study used options
        cell.devices,  # nor several devices
        cell.engine != Engine.lightning,  # the engines have a table of their own
        PRECISIONS.index(cell.precision) if cell.precision != wanted.precision else -1,
        abs(math.log(cell.batch_size / wanted.batch_size)),
        cell.batch_size,
        abs(math.log(cell.epochs / wanted.epochs)) if wanted.epochs and cell.mode == Mode.train else 0,
        cell.protocol != Protocol.fit,
        cell.threads is not None,
        cell.seed,
        cell.repeat,
    )
