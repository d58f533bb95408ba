"""What networks learnt, and the times of a single epoch, beside the published ones."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

from accelbench.answers.cells import MeasuredCell
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Table, count, number, percent, tabulate_known
from accelbench.schema.vocab import Device, Mode
from five_studies import published
from five_studies.comparison import (
    Seconds,
    describe,
    engines,
    measurement_of,
    nearest_cell,
    published_for_sweep,
    ratio,
)
from five_studies.published import Line, by_place
from five_studies.times import seconds_entry

QUALITY_COLUMNS = by_place(
    *("network", "whose", "device", "training accuracy (%)", "test accuracy (%)", "training loss", "test loss"),
    "cell or source",
)
SIZE_COLUMNS = by_place(
    *("network", "device", "how many", "engine", "batch", "images", "first epoch (s)", "a later epoch (s)"),
    *("samples/s", "times the speed with the fewest (x)"),
)
SIZE_NOTES = [
    "The study says that TPUs scale better to larger data sets, without numbers. Ours: whole epochs (protocol fit) on "
    "the first images of the training set. The first epoch holds the compilation; samples/s are of the later ones."
]
ONE_EPOCH_COLUMNS = by_place("network", "device", "engine", "published (s)", "ours (s)", "ours: cell", "published by")


def quality(sweep: Sweep) -> Table | None:
    """Accuracy and loss in training and on the test set, ours and published; None if there is neither."""
    models = dict.fromkeys([entry.model for entry in published_for_sweep(sweep)])
    models |= dict.fromkeys(reported.cell.model.name for reported in sweep.cells)
    found = [each for model in models for each in (*_our_quality(sweep, model), *_published_quality(sweep, model))]
    notes = [
        "Ours are of whole epochs (protocol fit); a bounded window of steps has no accuracy. Training: the mean over "
        "the last epoch's batches, each with the weights of its step. Test: after the last epoch."
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
    """How fast each device trains on more and more images; None if no cell has a part of the data set."""
    groups: dict[tuple[object, ...], list[MeasuredCell]] = defaultdict(list)
    parts = [reported for reported in sweep.cells if reported.cell.data.train_images and reported.speed]
    for reported in sorted(parts, key=lambda reported: reported.cell.data.train_images or 0):
        cell = reported.cell
        groups[cell.model.name, cell.device, str(cell.devices), cell.engine].append(reported)
    lines: list[Line] = []
    for settings, cells in groups.items():
        for each in cells:
            num, measured = each.cell.data.train_images or 0, measurement_of(each)
            first_s = measured.epochs[0].seconds if measured is not None and measured.epochs else None
            times = [number(first_s), number(num / each.speed if each.speed else None)]
            speeds = [number(each.speed), number(ratio(each, cells[0]))]
            lines.append([*settings, count(each.cell.batch_size), count(num), *times, *speeds])
    return tabulate_known("Speed by the size of the data set", SIZE_COLUMNS, lines, SIZE_NOTES)


def one_epoch(sweep: Sweep) -> Table | None:
    """The times of a single epoch, ours and the published; None if the study published none."""
    found: list[Line] = []
    for entry in published_for_sweep(sweep):
        if entry.metric == "one_epoch_time" and entry.device is not None:
            for engine in engines(sweep):
                wanted = (sweep, entry.model, Mode.train, Device(entry.device), engine)
                tested = nearest_cell(*wanted, known="test_loss")
                ours = tested if tested is not None and tested.is_ok else nearest_cell(*wanted)
                times = [published.entry(entry), seconds_entry(_first_epoch(ours, sweep.study))]
                found.append([entry.model, entry.device, engine, *times, describe(ours), entry.source])
    notes = [
        "One run with building and compiling; ours is the first epoch of the cell, whichever number it runs. ~: of "
        "fewer samples, plus what the rest takes at the cell's samples/s."
    ]
    return tabulate_known("One epoch", ONE_EPOCH_COLUMNS, found, notes)


def _first_epoch(ours: MeasuredCell | None, study: str | None) -> Seconds | None:
    """Seconds of building, and of the first epoch with its compilation."""
    measured = measurement_of(ours)
    if ours is None or measured is None or not measured.epochs or not ours.speed:
        return None
    first, wanted = measured.epochs[0], published.find(study, ours.cell.model.name, "train_samples", None)
    rest = int(wanted.value) - first.num_samples if wanted else 0
    return Seconds(measured.build_s + first.seconds + rest / ours.speed, rest != 0, "")
