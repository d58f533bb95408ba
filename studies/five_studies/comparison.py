"""Compares our times with a study's published times: chooses the compared cells, and computes speed-ups."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.gaps import OF_ENGINE
from accelbench.answers.words import options_text
from accelbench.report.read import Sweep
from accelbench.schema.cell import RANDOM, Cell, Device, Engine, Mode, Precision, Protocol, Provenance
from accelbench.schema.measurement import Measurement
from five_studies import published
from five_studies.published import Published

METRICS = {Mode.train: "train_time", Mode.infer: "test_time"}
# A study's testing time is the time of an evaluation. Our testing time is the time of inference. If an evaluation was
# timed here, its time is shown beside it.
TITLES = {Mode.train: "Training time", Mode.infer: "Testing time"}
# The precision of most studies comes first, then the others by how much they differ from it.
PRECISIONS = [Precision(word) for word in ("fp32", "tf32", "fp64", "bf16_mixed", "fp16_mixed", "bf16", "fp16", "int8")]
USUAL_BATCH = 128  # batch size of study 001


class Seconds(NamedTuple):
    """A time in seconds, whether it is an estimate, and the job that it is for, such as `5 x 60,000 samples`."""

    value: float
    estimated: bool
    job: str


@dataclass(frozen=True, kw_only=True)
class OurTime:
    """The time of the study's job by one of our cells. Unknown values are None."""

    cell: MeasuredCell | None  # the ok cell nearest to the study's settings; if none is ok, the nearest planned one
    seconds: Seconds | None
    evaluation: Seconds | None  # time of one evaluation on the test set
    tested: MeasuredCell | None  # cell that `evaluation` is from: the nearest training cell that timed an evaluation
    speedup: float | None  # the CPU's time over this device's time, from cells that differ only in the device


@dataclass(frozen=True, kw_only=True)
class PublishedComparison:
    """One network in one mode on one or several devices: our time with each engine, and the published time."""

    model: str
    mode: Mode
    device: Device
    devices: int  # number of devices that computed
    job: str  # the job that was timed: the study's, else that of our cell; may be empty
    ours: Mapping[Engine, OurTime]  # the study's own framework first
    published: Published | None  # the published time
    published_speedup: float | None  # the published CPU time over the published time of this device

    @property
    def device_text(self) -> str:
        """The device, with the number of devices if there are several: `tpu x 8`."""
        return self.device + (f" x {self.devices}" if self.devices > 1 else "")


def measurement_of(reported: MeasuredCell | None) -> Measurement | None:
    """The measurement of an ok cell. None if the cell is not ok."""
    return reported.record.measurement if reported is not None and reported.is_ok and reported.record else None


def _job(study: str | None, model: str, mode: Mode) -> tuple[int, int] | None:
    """Epochs and samples of the study's job. None if the study published no job; then the cell's own job is used."""
    trains = mode == Mode.train
    samples = published.find(study, model, "train_samples" if trains else "test_samples", None)
    epochs = published.find(study, model, "epochs", None) if trains else None
    if samples is None or (trains and epochs is None):
        return None
    return int(epochs.value) if epochs else 1, int(samples.value)


def _own_job(cell: Cell, measured: Measurement) -> tuple[int, int] | None:
    """Epochs and samples of a cell's job. None for random images, which have no data set."""
    trains = cell.mode == Mode.train
    num_samples = measured.num_train_samples if trains else measured.num_test_samples
    num_epochs = len(measured.epochs) or (cell.epochs if trains else 1)
    return None if num_samples is None else (num_epochs, num_samples)


def _job_text(job: tuple[int, int] | None) -> str:
    return "" if job is None else f"{job[0]} x {job[1]:,} samples"


def _seconds(reported: MeasuredCell | None, job: tuple[int, int] | None) -> Seconds | None:
    """The time of `job` by a cell: the measured time of its own job, and an estimate of the rest from its samples/s."""
    measured = measurement_of(reported)
    if reported is None or measured is None:
        return None
    time_s, speed = reported.number("time_s"), reported.number("samples_per_s")
    own = _own_job(reported.cell, measured)
    if time_s is None or speed is None or own is None:
        return None
    rest = 0 if job is None else math.prod(job) - math.prod(own)
    estimated = rest != 0 or reported.row["time_provenance"] == Provenance.estimated
    return Seconds(time_s + rest / speed, estimated, _job_text(job or own))


STAND_IN = "stand-in"


def stand_in(reported: MeasuredCell | None) -> str:
    """`stand-in` if the cell read a stand-in instead of its data set, else empty."""
    return STAND_IN if reported is not None and reported.row["stand_in"] else ""


def describe(reported: MeasuredCell | None) -> str:
    """The cell that a number belongs to, in words, or the reason why there is no number."""
    if reported is None:
        return "not planned"
    cell = reported.cell
    measured = measurement_of(reported)
    if measured is None:
        return reported.outcome
    job = _job_text(_own_job(cell, measured)) if measured.epochs else ""  # for a window, the job is only estimated
    engine = Engine.pytorch if cell.engine == Engine.pytorch else None  # `options_text` names the other engines
    parts = [engine, options_text(reported.row), job, cell.protocol.value, stand_in(reported)]
    return ", ".join([cell.precision, f"batch {cell.batch_size}", *filter(None, parts)])


def published_for_sweep(sweep: Sweep) -> list[Published]:
    """The study's published numbers for the networks in the sweep's plan. Several suites may share a study."""
    models = {reported.cell.model.name for reported in sweep.cells}
    return [entry for entry in published.load(sweep.study) if entry.model in models or not models]


def num_published_devices(study: str | None, model: str, device: str) -> int:
    """The number of devices that a study used for its numbers of this kind of device."""
    found = published.find(study, model, "devices", device)
    return int(found.value) if found else 1


def compare_with_published(sweep: Sweep, mode: Mode) -> list[PublishedComparison]:
    """A comparison for each network and device that was published or planned. The study's networks come first."""
    entries = [entry for entry in published_for_sweep(sweep) if entry.metric == METRICS[mode]]
    cells = [reported.cell for reported in sweep.cells if reported.cell.mode == mode]
    models = dict.fromkeys([entry.model for entry in entries] + [cell.model.name for cell in cells])
    known = {(e.model, e.device, num_published_devices(e.study, e.model, str(e.device))) for e in entries}
    known |= {(cell.model.name, cell.device, cell.devices) for cell in cells}
    numbers = sorted({num for _, _, num in known})
    places = [place for place in product(models, Device, numbers) if place in known]
    # A sweep that uses only random images has no whole job, and so no time to compare.
    has_jobs = entries or any(cell.data.name != RANDOM for cell in cells)
    return [_compare(sweep, model, mode, device, num) for model, device, num in places] if has_jobs else []


def engines(sweep: Sweep) -> list[Engine]:
    """The engines to compare: the study's own framework first, then the engines of the sweep's cells."""
    own = published.framework(sweep.study)
    return list(dict.fromkeys([*([own] if own else []), *(reported.cell.engine for reported in sweep.cells)]))


def _compare(sweep: Sweep, model: str, mode: Mode, device: Device, devices: int) -> PublishedComparison:
    is_theirs = num_published_devices(sweep.study, model, device) == devices
    theirs = published.find(sweep.study, model, METRICS[mode], device) if is_theirs else None
    their_cpu = published.find(sweep.study, model, METRICS[mode], Device.cpu)
    ours: dict[Engine, OurTime] = {}
    for engine in engines(sweep):
        first = next(iter(ours.values()), None)
        ours[engine] = _our_time(sweep, model, mode, device, devices, engine, first)
    job = _job_text(_job(sweep.study, model, mode))
    return PublishedComparison(
        model=model,
        mode=mode,
        device=device,
        devices=devices,
        job=job or next((each.seconds.job for each in ours.values() if each.seconds), ""),
        ours=ours,
        published=theirs,
        published_speedup=their_cpu.value / theirs.value if theirs and their_cpu else None,
    )


def _our_time(
    sweep: Sweep, model: str, mode: Mode, device: Device, devices: int, engine: Engine, beside: OurTime | None
) -> OurTime:
    """Our time with an engine. `beside`: our time with the first engine; its settings are preferred to the study's."""
    job = _job(sweep.study, model, mode)
    like = beside.cell if beside else None
    ours = nearest_cell(sweep, model, mode, device, engine, devices=devices, beside=like)
    seconds = _seconds(ours, job)
    our_cpu = ours if ours is None or device == Device.cpu else equal_on(Device.cpu, ours, sweep.cells)
    cpu = _seconds(our_cpu, job) if ours is not None and ours.cell.devices == 1 else None
    tested = None
    if mode == Mode.infer:
        like = beside.tested if beside else None
        of = (sweep, model, Mode.train, device, engine)
        tested = nearest_cell(*of, devices=devices, known="evaluation_s", beside=like)
    return OurTime(
        cell=ours,
        seconds=seconds,
        evaluation=_evaluation(tested, job),
        tested=tested,
        speedup=cpu.value / seconds.value if cpu and seconds else None,
    )


def _evaluation(tested: MeasuredCell | None, job: tuple[int, int] | None) -> Seconds | None:
    """The time of one evaluation on the study's test set, computed from an evaluation by the cell `tested`."""
    measured = measurement_of(tested)
    if tested is None or measured is None or measured.evaluation is None:
        return None
    evaluation_s = tested.number("evaluation_s") or 0.0
    num = measured.evaluation.num_samples
    wanted = num if job is None else math.prod(job)
    return Seconds(evaluation_s * wanted / num, wanted != num, _job_text((1, wanted)))


def nearest_cell(
    sweep: Sweep,
    model: str,
    mode: Mode,
    device: Device,
    engine: Engine,
    *,
    devices: int = 1,
    known: str | None = None,
    beside: MeasuredCell | None = None,
) -> MeasuredCell | None:
    """The cell nearest to the study's settings. An ok cell is preferred. It is always one cell, never a mean.

    Args:
        known: a column of `cells.csv`. If it is set, only cells with a value in this column count.
        beside: the cell of another engine whose number is shown beside. A cell that differs from it only in the engine
            is preferred.
    """
    wanted = beside.all_but(*OF_ENGINE) if beside is not None else None
    cells = [
        reported
        for reported in sweep.cells
        if (reported.cell.model.name, reported.cell.mode, reported.cell.device) == (model, mode, device)
        and (reported.cell.engine, reported.cell.devices) == (engine, devices)
    ]
    cells = [
        reported for reported in cells if reported.cell.protocol != Protocol.target
    ]  # its number of epochs is not fixed
    if known is not None:
        cells = [reported for reported in cells if reported.row[known] is not None]
    # The study's own settings, if possible for this device. If the study names no batch size, that of study 001.
    named = [entry for entry in published.load(sweep.study) if entry.model == model and entry.batch_size]
    entry = min(named, key=lambda entry: entry.device != device, default=None)
    precision = entry.precision if entry else Precision.fp32
    batch_size = (entry.batch_size if entry else None) or USUAL_BATCH
    epochs = published.find(sweep.study, model, "epochs", None)

    def distance(reported: MeasuredCell) -> tuple[float, ...]:
        """A sort key with the most important setting first."""
        cell = reported.cell
        return (
            not reported.is_ok,
            wanted is not None and reported.all_but(*OF_ENGINE) != wanted,
            len(cell.options.enabled),  # no study used options
            PRECISIONS.index(cell.precision) if cell.precision != precision else -1,
            abs(math.log(cell.batch_size / batch_size)),
            cell.batch_size,
            -(cell.data.train_images or math.inf),  # the whole data set, or the largest part
            abs(math.log(cell.epochs / epochs.value)) if epochs and cell.mode == Mode.train else 0,
            cell.protocol != Protocol.fit,
            cell.threads is not None,
            cell.seed,
            cell.repeat,
        )

    return min(cells, key=distance, default=None)


def equal_on(device: Device, reported: MeasuredCell, cells: Iterable[MeasuredCell]) -> MeasuredCell | None:
    """The ok cell on another device, `device`, with the other settings of `reported`. None if there is none."""
    if reported.cell.device == device:
        return None
    there = [each for each in cells if each.cell.device == device and each.is_ok]
    wanted = reported.all_but("device")
    return next((candidate for candidate in there if candidate.all_but("device") == wanted), None)


def ratio(first: MeasuredCell, second: MeasuredCell | None, column: str = "samples_per_s") -> float | None:
    """The first cell's number over the second's. None if either is unknown."""
    value = first.number(column)
    base = second.number(column) if second is not None else None
    return value / base if value is not None and base else None


def one_per_setting(cells: Iterable[MeasuredCell]) -> list[MeasuredCell]:
    """One cell for each network, mode, device, precision, engine, option and batch, for tables and pictures.

    It is the first ok cell, or if none is ok, the first. Cells with other seeds, repeats, inputs or numbers of steps
    are only in the table of all cells.
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
