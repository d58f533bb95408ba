"""Accuracy and loss, times of first epochs, and speeds by the size of the data set: published and ours."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

from accelbench.answers.cells import MeasuredCell
from accelbench.report.read import Sweep
from accelbench.report.table import Entry, Table, count, number, percent, tabulate_known
from accelbench.schema.cell import Device, Engine, Mode
from five_studies import published
from five_studies.comparison import (
    Seconds,
    describe,
    engines,
    measurement_of,
    nearest_cell,
    published_for_sweep,
    ratio,
    stand_in,
)
from five_studies.published import Line, Published, by_place
from five_studies.times import seconds_entry

QUALITY_COLUMNS = by_place(
    "network",
    "whose",
    "device",
    "training accuracy (%)",
    "test accuracy (%)",
    "training loss",
    "test loss",
    "cell or source",
)
SIZE_COLUMNS = by_place(
    "network",
    "device",
    "how many",
    "engine",
    "batch",
    "images",
    "data",
    "first epoch (s)",
    "a later epoch (s)",
    "samples/s",
    "times the speed with the fewest (x)",
)
SIZE_NOTES = [
    "The study says that TPUs scale better to larger data sets, without numbers. Ours: whole epochs (protocol fit) on "
    "the first images of the training set. The first epoch includes compilation; samples/s are from later epochs."
]


def quality(sweep: Sweep) -> Table | None:
    """Accuracy and loss in training and on the test set, ours and published. None if there are no values."""
    models = dict.fromkeys([entry.model for entry in published_for_sweep(sweep)])
    models |= dict.fromkeys(reported.cell.model.name for reported in sweep.cells)
    found = [each for model in models for each in (*_our_quality(sweep, model), *_published_quality(sweep, model))]
    notes = [
        "Ours are from cells that train whole epochs (protocol fit); other cells have no accuracy. Training: the mean "
        "over the last epoch's batches, each with the weights of its step. Test: after the last epoch."
    ]
    return tabulate_known("Accuracy and loss", QUALITY_COLUMNS, found, notes)


def _our_quality(sweep: Sweep, model: str) -> Iterator[Line]:
    for device, engine in product(Device, engines(sweep)):
        ours = nearest_cell(sweep, model, Mode.train, device, engine, known="test_loss")
        if ours is not None and ours.is_ok:
            accuracies = percent(ours.row["train_accuracy"]), percent(ours.row["accuracy"])
            losses = number(ours.row["loss"]), number(ours.row["test_loss"])
            yield [model, "ours", device, *accuracies, *losses, describe(ours)]


def _published_quality(sweep: Sweep, model: str) -> Iterator[Line]:
    for device in (None, *Device):
        metrics = ("train_accuracy", "accuracy", "loss", "validation_loss")
        found = [published.find(sweep.study, model, metric, device) for metric in metrics]
        if known := next(filter(None, found), None):
            source = known.source + published.epochs_text(sweep.study, model)
            yield [model, "published", device or "not stated", *map(published.entry, found), source]


def by_size(sweep: Sweep) -> Table | None:
    """The training speed of each device by number of images. None if no cell uses a part of the data set."""
    groups: dict[tuple[object, ...], list[MeasuredCell]] = defaultdict(list)
    parts = [reported for reported in sweep.cells if reported.cell.data.train_images and reported.speed]
    for reported in sorted(parts, key=lambda reported: reported.cell.data.train_images or 0):
        cell = reported.cell
        groups[cell.model.name, cell.device, str(cell.devices), cell.engine].append(reported)
    lines: list[Line] = []
    for settings, cells in groups.items():
        for each in cells:
            num = each.cell.data.train_images or 0
            measured = measurement_of(each)
            first_s = measured.epochs[0].seconds if measured is not None and measured.epochs else None
            times = [number(first_s), number(num / each.speed if each.speed else None)]
            speeds = [number(each.speed), number(ratio(each, cells[0]))]
            lines.append([*settings, count(each.cell.batch_size), count(num), stand_in(each), *times, *speeds])
    return tabulate_known("Speed by the size of the data set", SIZE_COLUMNS, lines, SIZE_NOTES)


def first_epochs(sweep: Sweep, wanted: Published) -> dict[Engine, tuple[MeasuredCell, Entry]]:
    """Engine -> the cell nearest to the settings of a published number, and its seconds of building and first epoch.

    The seconds include compilation, and are for the samples of the study's job. An engine without such a time is left
    out.
    """
    found: dict[Engine, tuple[MeasuredCell, Entry]] = {}
    samples = published.find(sweep.study, wanted.model, "train_samples", None)
    for engine in engines(sweep):
        of = (sweep, wanted.model, Mode.train, Device(str(wanted.device)), engine)
        first = next(iter(found.values()), (None, None))[0]
        ours = nearest_cell(*of, known="test_loss", beside=first)
        measured = measurement_of(ours)
        if ours is not None and measured is not None and measured.epochs and ours.speed:
            epoch = measured.epochs[0]
            rest = int(samples.value) - epoch.num_samples if samples else 0
            time = Seconds(measured.build_s + epoch.seconds + rest / ours.speed, rest != 0, "")
            found[engine] = ours, seconds_entry(time)
    return found
