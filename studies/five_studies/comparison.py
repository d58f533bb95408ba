"""Our times and a study's published ones: which of our cells is compared, and the speed-ups of both."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.words import options_text
from accelbench.report.read import Sweep
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
USUAL_BATCH = 128  # study 001's


@dataclass(frozen=True, kw_only=True)
class PublishedComparison:
    """One network in one mode on one device: our time and the published one; what is not known is None."""

    model: str
    mode: Mode
    device: Device
    ours: MeasuredCell | None  # the ok cell nearest to the study's settings; if none is ok, the nearest planned one
    speedup: float | None  # the CPU's time / this device's time, of cells that differ only in the device
    evaluation_s: float | None  # of one evaluation on the test set, by the nearest training cell that timed any
    published: Published | None  # the published time
    published_speedup: float | None  # the published CPU time / the published time of this device

    @property
    def time_s(self) -> float | None:
        """Seconds of ours; None if unknown."""
        return _time_s(self.ours)

    @property
    def estimated(self) -> bool:
        """Whether our time is an estimate."""
        return self.ours is not None and self.ours.row["time_provenance"] == "estimated"

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


def describe(reported: MeasuredCell | None) -> str:
    """Which cell a number belongs to, or why there is no number."""
    if reported is None:
        return "not planned"
    cell, measured = reported.cell, reported.record.measurement if reported.record else None
    if not reported.is_ok or measured is None:
        return f"{reported.outcome}: {reported.reason}" if reported.reason else reported.outcome
    parts = [options_text(reported.row), work_text(cell, measured), cell.protocol.value]
    return ", ".join([cell.precision, f"batch {cell.batch_size}", *filter(None, parts)])


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
    # A sweep over random images alone has no whole job, and so no time to compare.
    has_jobs = entries or any(cell.data.name != RANDOM for cell in cells)
    return [_compare(sweep, model, mode, device) for model, device in pairs] if has_jobs else []


def _compare(sweep: Sweep, model: str, mode: Mode, device: Device) -> PublishedComparison:
    ours, our_cpu = (nearest_cell(sweep, model, mode, each) for each in (device, Device.cpu))
    theirs, their_cpu = (published.find(sweep.study, model, METRICS[mode], each) for each in (device, Device.cpu))
    tested = nearest_cell(sweep, model, Mode.train, device, known="evaluation_s") if mode == Mode.infer else None
    return PublishedComparison(
        model=model,
        mode=mode,
        device=device,
        ours=ours,
        speedup=_speedup(our_cpu, ours),
        evaluation_s=tested.number("evaluation_s") if tested is not None and tested.is_ok else None,
        published=theirs,
        published_speedup=their_cpu.value / theirs.value if theirs and their_cpu else None,
    )


def _time_s(reported: MeasuredCell | None) -> float | None:
    return reported.number("time_s") if reported is not None and reported.is_ok else None


def _speedup(cpu: MeasuredCell | None, ours: MeasuredCell | None) -> float | None:
    cpu_s, ours_s = _time_s(cpu), _time_s(ours)
    if cpu is None or ours is None or cpu_s is None or ours_s is None:
        return None
    return cpu_s / ours_s if cpu.key_but_device == ours.key_but_device else None


def nearest_cell(sweep: Sweep, model: str, mode: Mode, device: Device, known: str | None = None) -> MeasuredCell | None:
    """The cell nearest to the study's settings, an ok cell first; never a mean over cells.

    With `known`, only among those that have a value in this column of `cells.csv`.
    """
    cells = [
        reported
        for reported in sweep.cells
        if (reported.cell.model.name, reported.cell.mode, reported.cell.device) == (model, mode, device)
        and (known is None or reported.row[known] is not None)
    ]
    # The study's own settings; study 001's where it names none.
    entry = next((entry for entry in published.load(sweep.study) if entry.model == model), None)
    precision = entry.precision if entry else Precision.fp32
    batch_size = (entry.batch_size if entry else None) or USUAL_BATCH
    epochs = published.find(sweep.study, model, "epochs", None)

    def distance(reported: MeasuredCell) -> tuple[float, ...]:
        """The most important setting first."""
        cell = reported.cell
        return (
            not reported.is_ok,
            len(cell.options.enabled),  # no study used options
            cell.devices,  # nor several devices
            cell.engine != Engine.lightning,  # the engines have a table of their own
            PRECISIONS.index(cell.precision) if cell.precision != precision else -1,
            abs(math.log(cell.batch_size / batch_size)),
            cell.batch_size,
            abs(math.log(cell.epochs / epochs.value)) if epochs and cell.mode == Mode.train else 0,
            cell.protocol != Protocol.fit,
            cell.threads is not None,
            cell.seed,
            cell.repeat,
        )

    return min(cells, key=distance, default=None)


def equal_on(device: Device, reported: MeasuredCell, cells: Iterable[MeasuredCell]) -> MeasuredCell | None:
    """The ok cell on `device` that is equal to `reported` in all else; None without such a cell on another device."""
    if reported.cell.device == device:
        return None
    there = (candidate for candidate in cells if candidate.cell.device == device and candidate.is_ok)
    return next((candidate for candidate in there if candidate.key_but_device == reported.key_but_device), None)


def ratio(first: MeasuredCell, second: MeasuredCell | None, column: str = "samples_per_s") -> float | None:
    """The first's number over the second's; None if either is unknown."""
    value, base = first.number(column), second.number(column) if second is not None else None
    return value / base if value is not None and base else None


def one_per_setting(cells: Iterable[MeasuredCell]) -> list[MeasuredCell]:
    """One cell per network, mode, devices, precision, engine, options and batch, for tables and pictures of one each.

    The first that is ok, else the first. The table of every cell shows the other seeds, repeats, inputs and step
    counts.
    """
    first: dict[tuple[object, ...], MeasuredCell] = {}
    for reported in cells:
        cell = reported.cell
        devices = (cell.device, cell.devices, cell.scaling)
        engine = (cell.engine, cell.keras)
        key = (cell.model.name, cell.mode, devices, cell.precision, engine, cell.options, cell.batch_size)
        if key not in first or (reported.is_ok and not first[key].is_ok):
            first[key] = reported
    return list(first.values())
