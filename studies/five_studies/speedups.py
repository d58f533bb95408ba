"""Speed-ups between devices: ours, from cells that differ only in the device, and the published ones."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from accelbench.answers.cells import MeasuredCell
from accelbench.report.read import Sweep
from accelbench.report.table import Entry, Table, count, number, tabulate, tabulate_known
from accelbench.schema.cell import Device, Mode, Precision
from five_studies import published, raw
from five_studies.comparison import describe, engines, equal_on, one_per_setting, published_for_sweep, ratio
from five_studies.published import Published, by_place

Devices = tuple[Device, Device]  # the first one's speed over the second's
CPU, GPU, TPU = Device.cpu, Device.gpu, Device.tpu
PAIRS: Sequence[Devices] = ((GPU, CPU), (TPU, CPU), (TPU, GPU), (GPU, TPU))
# Published times of several devices. If a study prints no speed-ups, they are computed from these.
TIMES = {"time_per_image": Mode.infer, "train_time": Mode.train, "test_time": Mode.infer, "one_epoch_time": Mode.train}
UNEQUAL_BATCHES = {"002"}  # studies with different batches on the two devices
ALL = "all"  # the network of a published number that is a mean over all networks
NOTES = [
    "Ours: the samples/s on the first device over the samples/s on the second, for two cells that differ only in the "
    "device. They are never ratios of means.",
    "Published: a speed-up that a study prints, or the ratio of its times, on its machines. A study's float32 on a GPU "
    "may be TF32. If its batches differ between the devices, the batch is empty.",
]
HEADLINE_NOTES = [
    "The study's headline divides means of launch times. They are from its runs of 512 steps on the EPYC and the A100, "
    "and of 10 steps on the TPU. End to end: the same runs with copying and waiting. With both CPUs: also on the i7. "
    "Ours: each pair of cells that differ only in the device.",
]


COLUMNS = by_place("network", "mode", "devices", "whose", "speed-up (x)", "precision", "batch", "cells or source")
HEADLINE_COLUMNS = by_place(
    "devices",
    "published (x)",
    "the same runs, end to end (x)",
    "with both CPUs, end to end (x)",
    "ours: lowest (x)",
    "ours: highest (x)",
    "ours: pairs of cells",
)
MACHINES = {GPU: raw.A100, TPU: raw.TPU_V2}
PRECISIONS = ("float32", "float64")  # precisions that study 000 used on all devices
HEADLINE_PAIRS: Sequence[Devices] = ((GPU, CPU), (TPU, CPU), (GPU, TPU))


def _pairs(sweep: Sweep, devices: Devices) -> list[tuple[MeasuredCell, MeasuredCell]]:
    found = [(each, equal_on(devices[1], each, sweep.cells)) for each in sweep.cells if each.is_ok]
    return [(each, other) for each, other in found if each.cell.device == devices[0] and other is not None]


def table(sweep: Sweep) -> Table | None:
    """A table of our speed-ups between devices and the published ones. None if there are no speed-ups."""
    return tabulate_known("Device against device", COLUMNS, _lines(sweep), NOTES)


def _lines(sweep: Sweep) -> list[list[Any]]:
    # Study 000 prints speed-ups of the GPU over the TPU. Other studies print the TPU over the GPU.
    left_out = (TPU, GPU) if sweep.study == "000" else (GPU, TPU)
    entries = published_for_sweep(sweep)
    if sweep.study == raw.STUDY:  # it has many speed-ups; only those with batches of the sweep are shown
        batches = {(reported.cell.model.name, reported.cell.batch_size) for reported in sweep.cells}
        entries = [each for each in entries if not each.batch_size or (each.model, each.batch_size) in batches]
    shown: list[list[Any]] = []
    for devices in (devices for devices in PAIRS if devices != left_out):
        shown += _ours(sweep, devices)
        shown += _printed(entries, devices, Mode.train if published.framework(sweep.study) else Mode.infer)
        shown += _from_times(entries, devices)
    models = list(dict.fromkeys([*(each.cell.model.name for each in sweep.cells), *(each.model for each in entries)]))

    names = list(map(_name, PAIRS))

    def place(line: Sequence[Any]) -> tuple[float, ...]:
        """A sort key. A published speed-up comes after our speed-up of the same batch."""
        return models.index(line[0]), names.index(line[2]), line[6].key or math.inf

    return sorted(shown, key=place)


class PublishedGain(NamedTuple):
    """A published speed-up, and ours of the same network, mode, devices and precision, and batch if it is known."""

    devices: str  # such as `gpu over cpu`
    gain: Entry
    ours: list[Entry]

    @property
    def is_over_cpu(self) -> bool:
        return self.devices.endswith(f" over {CPU}")


def beside_ours(sweep: Sweep) -> list[PublishedGain]:
    """Each published speed-up of the sweep's networks and batches. It was printed, or is a ratio of two times."""
    ours: dict[tuple[object, ...], list[Entry]] = defaultdict(list)
    lines = _lines(sweep)
    for model, mode, devices, whose, gain, precision, batch, _ in lines:
        if whose == "ours":
            for size in (batch.key, None):
                ours[model, mode, devices, precision, size].append(gain)
    return [
        PublishedGain(devices, gain, ours[model, mode, devices, precision, batch.key])
        for model, mode, devices, whose, gain, precision, batch, _ in lines
        if whose == "published"
    ]


def claim(sweep: Sweep) -> str:
    """A sentence with the study's speed-ups between devices, and ours. Empty if the study has no speed-up."""
    if sweep.study == raw.STUDY:
        return _headline_claim(sweep)
    compared = [each for each in beside_ours(sweep) if " to " not in each.gain.text]  # without expected ranges
    said, here = [], []
    for name in dict.fromkeys(each.devices for each in compared if sweep.study != "001" or each.is_over_cpu):
        of_pair = [each for each in compared if each.devices == name]
        said.append(f"{name} {span([each.gain for each in of_pair])}")
        if gains := [gain for each in of_pair for gain in each.ours]:
            here.append(f"{name} {span(gains)}")
    return (
        f"Speed-ups in the study: {', '.join(said)} times. Here: {', '.join(here) or 'not measured'}." if said else ""
    )


def _headline_claim(sweep: Sweep) -> str:
    table = headlines(sweep)
    rows = table.rows if table else []
    theirs = ", ".join(f"{row[0].text} {row[1].text}" for row in rows)
    ends = ", ".join(row[2].text for row in rows)
    ours = ", ".join(f"{row[0].text} {span(row[4:6])}" for row in rows if row[4].key is not None)
    said = f"The study's headline, {theirs} times, is of launch times: end to end, the same runs give {ends}."
    return f"{said} Here: {ours or 'not measured'}."


def span(found: Sequence[Entry], digits: int = 3) -> str:
    """The range of the numbers, such as `3.29 to 34.3`."""
    values = [float(each.key) for each in found if each.key is not None]
    return " to ".join(dict.fromkeys(number(end(values), digits).text for end in (min, max)))


def _name(devices: Devices) -> str:
    return " over ".join(devices)


def _ours(sweep: Sweep, devices: Devices) -> Iterator[list[Any]]:
    own_first = engines(sweep)
    pairs = sorted(_pairs(sweep, devices), key=lambda pair: own_first.index(pair[0].cell.engine))
    others = {first.name: (first, second) for first, second in pairs}
    for chosen in one_per_setting(first for first, _ in pairs):
        first, second = others[chosen.name]
        cell = first.cell
        if (gain := ratio(first, second)) is not None:
            settings = (cell.precision, count(cell.batch_size), describe(first))
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


def _from_times(entries: Sequence[Published], devices: Devices) -> Iterator[list[Any]]:
    """Ratios of two published times in float32 of the same network and batch. In `UNEQUAL_BATCHES`, batches differ."""
    # On study 000's GPU, float32 is TF32.
    times = [e for e in entries if e.metric in TIMES and e.precision in (Precision.fp32, Precision.tf32)]
    first, second = ([entry for entry in times if entry.device == device] for device in devices)
    for one in first:
        is_unequal = one.study in UNEQUAL_BATCHES
        for other in second:
            same = (one.model, one.metric) == (other.model, other.metric)
            if same and (is_unequal or one.batch_size == other.batch_size):
                # The end of a source is the name of the measured machine.
                machines = " / ".join(dict.fromkeys(entry.source.rpartition(": ")[2] for entry in (other, one)))
                source = f"{other.value:g} {one.unit} / {one.value:g} {one.unit}: {machines}"
                settings = (Precision.fp32, count(None if is_unequal else one.batch_size), source)
                gain = number(other.value / one.value)
                yield [one.model, TIMES[one.metric], _name(devices), "published", gain, *settings]


def headlines(sweep: Sweep) -> Table | None:
    """Study 000's headline speed-ups over all networks, its own raw data, and ours. None for other studies."""
    if sweep.study != raw.STUDY:
        return None
    found = []
    for devices in HEADLINE_PAIRS:
        printed = published.find(sweep.study, ALL, f"speedup_over_{devices[1]}", devices[0])
        ratios = [each for pair in _pairs(sweep, devices) if (each := ratio(*pair)) is not None]
        theirs = [number(end_to_end(devices, cpus), 4) for cpus in ([raw.EPYC], [raw.EPYC, raw.I7])]
        ends = number(min(ratios, default=None)), number(max(ratios, default=None))
        found.append([_name(devices), published.entry(printed), *theirs, *ends, count(len(ratios))])
    return tabulate("The study's headline speed-ups", HEADLINE_COLUMNS, found, HEADLINE_NOTES)


def end_to_end(devices: Devices, cpus: Sequence[str], precision: str | None = None, *, same: bool = False) -> float:
    """The ratio of study 000's mean times per image. With `same`, only networks that it ran on these CPUs count."""
    models = {run.model for cpu in cpus for run in raw.compared(cpu)} if same else set()

    def runs(device: Device) -> list[raw.Run]:
        machines = cpus if device == CPU else [MACHINES[device]]
        return [run for machine in machines for run in raw.compared(machine, precision, models)]

    return raw.times_as_fast(runs(devices[0]), runs(devices[1]))


def like_for_like(sweep: Sweep) -> Table | None:
    """Study 000's end-to-end speed-ups for each precision and CPU. None for other studies."""
    if sweep.study != raw.STUDY:
        return None

    def of(devices: Devices, precision: str) -> list[float]:
        return [end_to_end(devices, [cpu], precision, same=True) for cpu in (raw.EPYC, raw.I7)]

    settings = [(devices, precision) for devices in HEADLINE_PAIRS for precision in PRECISIONS]
    lines = [[_name(devices), each, *map(number, of(devices, each))] for devices, each in settings]
    slower, faster = (of((TPU, CPU), precision) for precision in PRECISIONS)
    fp32_ms, fp64_ms = (fmean(run.total_ms for run in raw.compared(raw.TPU_V2, each)) for each in PRECISIONS)
    mean = end_to_end((TPU, CPU), [raw.EPYC])
    notes = [
        f"The study's mean hides a difference: the TPU over the CPU is {mean:.2f} in the mean. But the TPU is "
        f"{1 / max(slower):.1f} to {1 / min(slower):.1f} times as slow in float32, and {min(faster):.0f} to "
        f"{max(faster):.0f} times as fast in float64.",
        "This gain is not from float64: PyTorch/XLA computed a TPU's float64 in float32. The float64 runs took "
        f"{fp64_ms:.1f} ms an image, the float32 runs {fp32_ms:.0f} ms. The float64 runs came later in one process: "
        "probably their programs were compiled already.",
        "Ratios of mean times per image in one precision. The means are over the networks and batches that the study "
        'ran on the column\'s CPU. The "float32" of its GPU is TF32.',
    ]
    headings = [f"{raw.EPYC} (16 networks)", f"{raw.I7} (18 networks)"]
    return tabulate("End to end, like for like", by_place("devices", "precision", *headings), lines, notes)
