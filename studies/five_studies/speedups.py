"""Device against device: speed-ups between cells that differ only in the device, and the published ones."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.table import Column, Entry, Table, count, number, tabulate, tabulate_known, word
from accelbench.schema.vocab import Device, Mode, Precision
from five_studies import published
from five_studies.comparison import equal_on, one_per_setting, published_for_sweep
from five_studies.published import Published
from five_studies.times import describe

# The first device's speed over the second's.
PAIRS = ((Device.gpu, Device.cpu), (Device.tpu, Device.cpu), (Device.tpu, Device.gpu), (Device.gpu, Device.tpu))
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


@dataclass(frozen=True)
class DevicePair:
    """Two ok cells that differ only in the device."""

    first: ReportedCell
    second: ReportedCell

    def ratio(self, column: str) -> float | None:
        """The first's number over the second's; None if either is unknown."""
        return self.first.over(self.second, column)

    @property
    def copying(self) -> float | None:
        """The first's time of copying over the second's; None if either copies nothing."""
        first, second = copying_ms(self.first), copying_ms(self.second)
        return first / second if first is not None and second else None


@dataclass(frozen=True)
class _Speedup:
    """A speed-up, ours or published."""

    model: str
    mode: Mode
    devices: tuple[Device, Device]
    whose: str
    value: Entry
    copying: float | None
    precision: Precision
    batch_size: int | None
    source: str


COLUMNS: list[Column[_Speedup]] = [
    Column("network", lambda speedup: word(speedup.model)),
    Column("mode", lambda speedup: word(speedup.mode)),
    Column("devices", lambda speedup: word(" over ".join(speedup.devices))),
    Column("whose", lambda speedup: word(speedup.whose)),
    Column("speed-up (x)", lambda speedup: speedup.value),
    Column("copying (x)", lambda speedup: number(speedup.copying)),
    Column("precision", lambda speedup: word(speedup.precision)),
    Column("batch", lambda speedup: count(speedup.batch_size)),
    Column("cells or source", lambda speedup: word(speedup.source)),
]


def copying_ms(reported: ReportedCell) -> float | None:
    """Milliseconds of copying to the device and back per step; None if nothing is copied."""
    known = [value for column in ("copy_in_ms", "copy_out_ms") if (value := reported.number(column)) is not None]
    return sum(known) if known else None


def pairs(sweep: Sweep, first: Device, second: Device) -> list[DevicePair]:
    """The ok cells on `first` that have an equal ok cell on `second`, with it."""
    found = ((reported, equal_on(second, reported, sweep.cells)) for reported in sweep.cells if reported.is_ok)
    return [DevicePair(reported, other) for reported, other in found if reported.cell.device == first and other]


def table(sweep: Sweep) -> Table | None:
    """Our speed-ups between devices and the published ones; None if there is neither."""
    theirs = list(_published(sweep))
    shown = [each for devices in _device_pairs(sweep) for each in (*_ours(sweep, devices), *_of(theirs, devices))]
    models = list(dict.fromkeys(reported.cell.model.name for reported in sweep.cells))

    def place(speedup: _Speedup) -> tuple[float, ...]:
        """A published speed-up follows ours of the same batch."""
        return models.index(speedup.model), PAIRS.index(speedup.devices), speedup.batch_size or math.inf

    return tabulate_known("Device against device", COLUMNS, sorted(shown, key=place), NOTES)


def _of(found: Iterable[_Speedup], devices: tuple[Device, Device]) -> list[_Speedup]:
    """Those of `devices`."""
    return [each for each in found if each.devices == devices]


def _device_pairs(sweep: Sweep) -> list[tuple[Device, Device]]:
    """A GPU over a TPU in study 000, which prints it so; else a TPU over a GPU."""
    left_out = (Device.tpu, Device.gpu) if sweep.study == "000" else (Device.gpu, Device.tpu)
    return [devices for devices in PAIRS if devices != left_out]


def _ours(sweep: Sweep, devices: tuple[Device, Device]) -> Iterator[_Speedup]:
    found = {pair.first.name: pair for pair in pairs(sweep, *devices)}
    for reported in one_per_setting(pair.first for pair in found.values()):
        pair, cell = found[reported.name], reported.cell
        if (ratio := pair.ratio("samples_per_s")) is not None:
            settings = (cell.precision, cell.batch_size, f"{cell.engine}, {describe(pair.first)}")
            yield _Speedup(cell.model.name, cell.mode, devices, "ours", number(ratio), pair.copying, *settings)


def _published(sweep: Sweep) -> Iterator[_Speedup]:
    batches = {reported.cell.batch_size for reported in sweep.cells}
    entries = [entry for entry in published_for_sweep(sweep) if entry.batch_size in {None, *batches}]
    entries = entries if sweep.study not in UNEQUAL_BATCHES else published_for_sweep(sweep)
    mode = MODES.get(sweep.study or "", Mode.infer)
    for devices in _device_pairs(sweep):
        yield from _printed(entries, devices, mode)
        yield from _from_times(entries, devices, mode)


def _printed(entries: list[Published], devices: tuple[Device, Device], mode: Mode) -> Iterator[_Speedup]:
    first, second = devices
    of_device = [entry for entry in entries if entry.device == first]
    for entry in of_device:
        if entry.metric in (name := f"speedup_over_{second}", f"low_{name}"):
            high = [e.value for e in of_device if (e.metric, e.model) == (f"high_{name}", entry.model)]
            text = f"{entry.value:g}" if entry.metric == name else f"{entry.value:g} to {high[0]:g}"
            value = Entry(text, entry.value)
            settings = (entry.precision, entry.batch_size, entry.source)
            yield _Speedup(entry.model, mode, devices, "published", value, None, *settings)


def _from_times(entries: list[Published], devices: tuple[Device, Device], mode: Mode) -> Iterator[_Speedup]:
    """The ratio of two published times of the same network, of float32, and of the same batch unless it was unequal."""
    first, second = ([_float32(entry) for entry in entries if entry.device == device] for device in devices)
    for one in filter(None, first):
        for other in filter(None, second):
            unequal = one.study in UNEQUAL_BATCHES
            if one.model == other.model and (unequal or one.batch_size == other.batch_size):
                ratio = other.value / one.value
                batch_size = None if unequal else one.batch_size
                source = f"{other.value:g} {one.unit} / {one.value:g} {one.unit}: {_machine(other)} / {_machine(one)}"
                settings = (Precision.fp32, batch_size, source)
                copying = _copying_ratio(one, other)
                yield _Speedup(one.model, mode, devices, "published", number(ratio), copying, *settings)


def _machine(entry: Published) -> str:
    """The end of the source, which names what the number was measured on."""
    return entry.source.rpartition(": ")[2]


def _copying_ratio(one: Published, other: Published) -> float | None:
    """The published time of copying of one over that of the other; None if either is unknown."""
    times = [_copying(entry) for entry in (one, other)]
    return times[0] / times[1] if times[0] is not None and times[1] else None


def _copying(entry: Published) -> float | None:
    same = (entry.device, entry.model, entry.precision, entry.batch_size)
    shares = (
        share.value
        for share in published.load(entry.study)
        if share.metric == "communication_share"
        and (share.device, share.model, share.precision, share.batch_size) == same
    )
    share = next(shares, None)
    return None if share is None else share / 100 * entry.value


def _float32(entry: Published) -> Published | None:
    """The entry if it is a time of what its study calls float32, which is TF32 on study 000's GPU."""
    is_float32 = entry.precision in (Precision.fp32, Precision.tf32)
    return entry if entry.metric == TIMES.get(entry.study) and is_float32 else None


@dataclass(frozen=True)
class _Headline:
    devices: tuple[Device, Device]
    printed: Published
    end_to_end: Published
    ours: list[float]


def _as_printed(entry: Published) -> Entry:
    return Entry(f"{entry.value:g}", entry.value)


HEADLINE_COLUMNS: list[Column[_Headline]] = [
    Column("devices", lambda headline: word(" over ".join(headline.devices))),
    Column("published (x)", lambda headline: _as_printed(headline.printed)),
    Column("from its raw data, end to end (x)", lambda headline: _as_printed(headline.end_to_end)),
    Column("ours: lowest (x)", lambda headline: number(min(headline.ours, default=None))),
    Column("ours: highest (x)", lambda headline: number(max(headline.ours, default=None))),
    Column("ours: pairs of cells", lambda headline: count(len(headline.ours))),
]


def headlines(sweep: Sweep) -> Table | None:
    """A study's headline speed-ups over all networks, beside its own raw data and ours; None if it has none."""
    found = []
    for first, second in PAIRS:
        printed = published.find(sweep.study, ALL, f"speedup_over_{second}", first)
        end_to_end = published.find(sweep.study, ALL, f"end_to_end_speedup_over_{second}", first)
        if printed and end_to_end:
            ratios = [pair.ratio("samples_per_s") for pair in pairs(sweep, first, second)]
            known = [ratio for ratio in ratios if ratio is not None]
            found.append(_Headline((first, second), printed, end_to_end, known))
    return tabulate("The study's headline speed-ups", HEADLINE_COLUMNS, found, HEADLINE_NOTES) if found else None
