"""Device against device: speed-ups between cells that differ only in the device, and the published ones."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from accelbench.answers.cells import MeasuredCell
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Entry, Table, count, number, tabulate, tabulate_known
from accelbench.schema.vocab import Device, Mode, Precision
from five_studies import published
from five_studies.comparison import describe, equal_on, one_per_setting, published_for_sweep, ratio
from five_studies.published import Published, by_place

Devices = tuple[Device, Device]  # the first one's speed over the second's
CPU, GPU, TPU = Device.cpu, Device.gpu, Device.tpu
PAIRS: Sequence[Devices] = ((GPU, CPU), (TPU, CPU), (TPU, GPU), (GPU, TPU))
# Times that a study published of several devices, from which its speed-ups follow where it prints none itself.
TIMES = {"000": "time_per_image", "002": "train_time"}
MODES = {"002": Mode.train}  # of the published speed-ups; else inference
UNEQUAL_BATCHES = {"002"}  # studies whose batch was not the same on both devices
ALL = "all"  # the network of a published number that is a mean over all networks
NOTES = [
    "Ours: the samples/s of the first device over those of the second, of two cells that differ only in the device; "
    "never of means.",
    "Published speed-ups are those that a study prints or the ratio of its times, on its machines. A study's float32 "
    "on a GPU may be TF32, and its batch may differ between the devices: then the batch is empty.",
]
HEADLINE_NOTES = [
    "The study's headline divides means of its launch times. From its raw data, end to end: copying and waiting "
    "included, which the launch times leave out. Its means are over other precisions on the CPU (2) than on the GPU "
    "and the TPU (4). Ours: each pair of cells that differ only in the device."
]


COLUMNS = by_place(*("network", "mode", "devices", "whose", "speed-up (x)", "precision", "batch", "cells or source"))
HEADLINE_COLUMNS = by_place(
    *("devices", "published (x)", "from its raw data, end to end (x)", "ours: lowest (x)", "ours: highest (x)"),
    "ours: pairs of cells",
)


def _pairs(sweep: Sweep, devices: Devices) -> list[tuple[MeasuredCell, MeasuredCell]]:
    found = [(each, equal_on(devices[1], each, sweep.cells)) for each in sweep.cells if each.is_ok]
    return [(each, other) for each, other in found if each.cell.device == devices[0] and other is not None]


def table(sweep: Sweep) -> Table | None:
    """Our speed-ups between devices and the published ones; None if there is neither."""
    # A GPU over a TPU in study 000, which prints it so; else a TPU over a GPU.
    left_out = (TPU, GPU) if sweep.study == "000" else (GPU, TPU)
    entries = published_for_sweep(sweep)
    if sweep.study not in UNEQUAL_BATCHES:
        batches = {None, *(reported.cell.batch_size for reported in sweep.cells)}
        entries = [entry for entry in entries if entry.batch_size in batches]
    mode = MODES.get(sweep.study or "", Mode.infer)
    shown: list[list[Any]] = []
    for devices in (devices for devices in PAIRS if devices != left_out):
        shown += _ours(sweep, devices)
        shown += _printed(entries, devices, mode)
        shown += _from_times(entries, devices, mode)
    models = list(dict.fromkeys(reported.cell.model.name for reported in sweep.cells))

    names = list(map(_name, PAIRS))

    def place(line: Sequence[Any]) -> tuple[float, ...]:
        """A published speed-up follows ours of the same batch."""
        return models.index(line[0]), names.index(line[2]), line[6].key or math.inf

    return tabulate_known("Device against device", COLUMNS, sorted(shown, key=place), NOTES)


def _name(devices: Devices) -> str:
    return " over ".join(devices)


def _ours(sweep: Sweep, devices: Devices) -> Iterator[list[Any]]:
    others = {first.name: (first, second) for first, second in _pairs(sweep, devices)}
    for first in one_per_setting(first for first, _ in others.values()):
        first, second = others[first.name]
        cell = first.cell
        if (gain := ratio(first, second)) is not None:
            settings = (cell.precision, count(cell.batch_size), f"{cell.engine}, {describe(first)}")
            yield [cell.model.name, cell.mode, _name(devices), "ours", number(gain), *settings]


def _printed(entries: Sequence[Published], devices: Devices, mode: Mode) -> Iterator[list[Any]]:
    name = f"speedup_over_{devices[1]}"
    of_device = [entry for entry in entries if entry.device == devices[0]]
    for entry in of_device:
        if entry.metric in (name, f"low_{name}"):
            high = [e.value for e in of_device if (e.metric, e.model) == (f"high_{name}", entry.model)]
            text = f"{entry.value:g}" if entry.metric == name else f"{entry.value:g} to {high[0]:g}"
            settings = (entry.precision, count(entry.batch_size), entry.source)
            yield [entry.model, mode, _name(devices), "published", Entry(text, entry.value), *settings]


def _from_times(entries: Sequence[Published], devices: Devices, mode: Mode) -> Iterator[list[Any]]:
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
                settings = (Precision.fp32, count(None if is_unequal else one.batch_size), source)
                gain = number(other.value / one.value)
                yield [one.model, mode, _name(devices), "published", gain, *settings]


def headlines(sweep: Sweep) -> Table | None:
    """A study's headline speed-ups over all networks, beside its own raw data and ours; None if it has none."""
    found = []
    for devices in PAIRS:
        name = f"speedup_over_{devices[1]}"
        printed = published.find(sweep.study, ALL, name, devices[0])
        end_to_end = published.find(sweep.study, ALL, f"end_to_end_{name}", devices[0])
        if printed and end_to_end:
            ratios = [each for pair in _pairs(sweep, devices) if (each := ratio(*pair)) is not None]
            theirs = [Entry(f"{each.value:g}", each.value) for each in (printed, end_to_end)]
            ends = number(min(ratios, default=None)), number(max(ratios, default=None))
            found.append([_name(devices), *theirs, *ends, count(len(ratios))])
    return tabulate("The study's headline speed-ups", HEADLINE_COLUMNS, found, HEADLINE_NOTES) if found else None
