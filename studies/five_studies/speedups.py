"""Device against device: speed-ups between cells that differ only in the device, and the published ones."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from accelbench.answers.cells import MeasuredCell
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Column, Entry, Table, count, number, tabulate, tabulate_known
from accelbench.schema.vocab import Device, Mode, Precision
from five_studies import published
from five_studies.comparison import describe, equal_on, one_per_setting, published_for_sweep, ratio
from five_studies.published import Published
from five_studies.steps import copying_ms

Devices = tuple[Device, Device]  # the first one's speed over the second's
PAIRS: Sequence[Devices] = (
    (Device.gpu, Device.cpu),
    (Device.tpu, Device.cpu),
    (Device.tpu, Device.gpu),
    (Device.gpu, Device.tpu),
)
# Times that a study published of several devices, from which its speed-ups follow where it prints none itself.
TIMES = {"000": "time_per_image", "002": "train_time"}
MODES = {"002": Mode.train}  # of the published speed-ups; else inference
UNEQUAL_BATCHES = {"002"}  # studies whose batch was not the same on both devices
ALL = "all"  # the network of a published number that is a mean over all networks
NOTES = [
    "Ours: the samples/s of the first device over those of the second, of two cells that differ only in the device; "
    "never of means. Copying: seconds of copying per step, the first device's over the second's.",
    "Published speed-ups are those that a study prints or the ratio of its times, on its machines. A study's float32 "
    "on a GPU may be TF32, and its batch may differ between the devices: then the batch is empty.",
]
HEADLINE_NOTES = [
    "The study's headline divides means of its launch times. From its raw data, end to end: copying and waiting "
    "included, which the launch times leave out. Its means are over other precisions on the CPU (2) than on the GPU "
    "and the TPU (4). Ours: each pair of cells that differ only in the device."
]


class _Speedup(NamedTuple):
    """A speed-up, ours or published."""

    model: str
    mode: Mode
    devices: Devices
    whose: str
    value: Entry
    copying: float | None
    precision: Precision
    batch_size: int | None
    source: str


COLUMNS: list[Column[_Speedup]] = [
    Column("network", lambda speedup: speedup.model),
    Column("mode", lambda speedup: speedup.mode),
    Column("devices", lambda speedup: " over ".join(speedup.devices)),
    Column("whose", lambda speedup: speedup.whose),
    Column("speed-up (x)", lambda speedup: speedup.value),
    Column("copying (x)", lambda speedup: speedup.copying, number),
    Column("precision", lambda speedup: speedup.precision),
    Column("batch", lambda speedup: speedup.batch_size, count),
    Column("cells or source", lambda speedup: speedup.source),
]


def _pairs(sweep: Sweep, devices: Devices) -> list[tuple[MeasuredCell, MeasuredCell]]:
    found = [(each, equal_on(devices[1], each, sweep.cells)) for each in sweep.cells if each.is_ok]
    return [(each, other) for each, other in found if each.cell.device == devices[0] and other is not None]


def table(sweep: Sweep) -> Table | None:
    """Our speed-ups between devices and the published ones; None if there is neither."""
    # A GPU over a TPU in study 000, which prints it so; else a TPU over a GPU.
    left_out = (Device.tpu, Device.gpu) if sweep.study == "000" else (Device.gpu, Device.tpu)
    entries = published_for_sweep(sweep)
    if sweep.study not in UNEQUAL_BATCHES:
        batches = {None, *(reported.cell.batch_size for reported in sweep.cells)}
        entries = [entry for entry in entries if entry.batch_size in batches]
    mode = MODES.get(sweep.study or "", Mode.infer)
    shown: list[_Speedup] = []
    for devices in (devices for devices in PAIRS if devices != left_out):
        shown += _ours(sweep, devices)
        shown += _printed(entries, devices, mode)
        shown += _from_times(entries, devices, mode)
    models = list(dict.fromkeys(reported.cell.model.name for reported in sweep.cells))

    def place(speedup: _Speedup) -> tuple[float, ...]:
        """A published speed-up follows ours of the same batch."""
        return models.index(speedup.model), PAIRS.index(speedup.devices), speedup.batch_size or math.inf

    return tabulate_known("Device against device", COLUMNS, sorted(shown, key=place), NOTES)


def _ours(sweep: Sweep, devices: Devices) -> Iterator[_Speedup]:
    others = {first.name: (first, second) for first, second in _pairs(sweep, devices)}
    for first in one_per_setting(first for first, _ in others.values()):
        first, second = others[first.name]
        cell, copying = first.cell, [copying_ms(each) for each in (first, second)]
        if (gain := ratio(first, second)) is not None:
            copied = copying[0] / copying[1] if copying[0] is not None and copying[1] else None
            settings = (cell.precision, cell.batch_size, f"{cell.engine}, {describe(first)}")
            yield _Speedup(cell.model.name, cell.mode, devices, "ours", number(gain), copied, *settings)


def _printed(entries: Sequence[Published], devices: Devices, mode: Mode) -> Iterator[_Speedup]:
    name = f"speedup_over_{devices[1]}"
    of_device = [entry for entry in entries if entry.device == devices[0]]
    for entry in of_device:
        if entry.metric in (name, f"low_{name}"):
            high = [e.value for e in of_device if (e.metric, e.model) == (f"high_{name}", entry.model)]
            text = f"{entry.value:g}" if entry.metric == name else f"{entry.value:g} to {high[0]:g}"
            settings = (entry.precision, entry.batch_size, entry.source)
            yield _Speedup(entry.model, mode, devices, "published", Entry(text, entry.value), None, *settings)


def _from_times(entries: Sequence[Published], devices: Devices, mode: Mode) -> Iterator[_Speedup]:
    """The ratio of two published times of the same network, of float32, and of the same batch unless it was unequal."""
    # What a study calls float32 is TF32 on study 000's GPU.
    times = [e for e in entries if e.metric == TIMES.get(e.study) and e.precision in (Precision.fp32, Precision.tf32)]
    first, second = ([entry for entry in times if entry.device == device] for device in devices)
    for one in first:
        is_unequal = one.study in UNEQUAL_BATCHES
        for other in second:
            if one.model == other.model and (is_unequal or one.batch_size == other.batch_size):
                # The end of a source names what the number was measured on.
                machines = " / ".join(entry.source.rpartition(": ")[2] for entry in (other, one))
                source = f"{other.value:g} {one.unit} / {one.value:g} {one.unit}: {machines}"
                copying = [_published_copying(entry) for entry in (one, other)]
                copied = copying[0] / copying[1] if copying[0] is not None and copying[1] else None
                settings = (Precision.fp32, None if is_unequal else one.batch_size, source)
                gain = number(other.value / one.value)
                yield _Speedup(one.model, mode, devices, "published", gain, copied, *settings)


def _published_copying(entry: Published) -> float | None:
    """The part of a published time that is copying; None if unknown."""

    def settings(of: Published) -> tuple[object, ...]:
        return of.device, of.model, of.precision, of.batch_size

    shares = [share for share in published.load(entry.study) if share.metric == "communication_share"]
    share = next((share.value for share in shares if settings(share) == settings(entry)), None)
    return None if share is None else share / 100 * entry.value


class _Headline(NamedTuple):
    """What a study printed, what its raw data gives, and our ratios."""

    devices: Devices
    printed: Published
    end_to_end: Published
    ours: list[float]


HEADLINE_COLUMNS: list[Column[_Headline]] = [
    Column("devices", lambda headline: " over ".join(headline.devices)),
    Column("published (x)", lambda headline: _as_printed(headline.printed)),
    Column("from its raw data, end to end (x)", lambda headline: _as_printed(headline.end_to_end)),
    Column("ours: lowest (x)", lambda headline: min(headline.ours, default=None), number),
    Column("ours: highest (x)", lambda headline: max(headline.ours, default=None), number),
    Column("ours: pairs of cells", lambda headline: len(headline.ours), count),
]


def _as_printed(entry: Published) -> Entry:
    return Entry(f"{entry.value:g}", entry.value)


def headlines(sweep: Sweep) -> Table | None:
    """A study's headline speed-ups over all networks, beside its own raw data and ours; None if it has none."""
    found = []
    for devices in PAIRS:
        name = f"speedup_over_{devices[1]}"
        printed = published.find(sweep.study, ALL, name, devices[0])
        end_to_end = published.find(sweep.study, ALL, f"end_to_end_{name}", devices[0])
        if printed and end_to_end:
            ratios = [ratio(*pair) for pair in _pairs(sweep, devices)]
            found.append(_Headline(devices, printed, end_to_end, [each for each in ratios if each is not None]))
    return tabulate("The study's headline speed-ups", HEADLINE_COLUMNS, found, HEADLINE_NOTES) if found else None
