"""What networks learnt and the published accuracies, and what their training cost besides its epochs."""

from collections.abc import Iterator
from dataclasses import dataclass

from accelbench.answers.words import options_text
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.table import Column, Entry, Table, count, number, percent, tabulate_known, word
from accelbench.schema.record import Row
from accelbench.schema.vocab import Device, Mode, Protocol
from five_studies import published
from five_studies.comparison import nearest_cell, published_for_sweep
from five_studies.published import Published
from five_studies.times import describe, published_entry, published_epochs


@dataclass(frozen=True)
class _Quality:
    """A network's accuracy and loss, in training and on the test set: ours or published ones."""

    model: str
    whose: str
    device: str
    train_accuracy: Entry
    accuracy: Entry
    train_loss: Entry
    loss: Entry
    source: str


QUALITY_COLUMNS: list[Column[_Quality]] = [
    Column("network", lambda quality: word(quality.model)),
    Column("whose", lambda quality: word(quality.whose)),
    Column("device", lambda quality: word(quality.device)),
    Column("training accuracy (%)", lambda quality: quality.train_accuracy),
    Column("test accuracy (%)", lambda quality: quality.accuracy),
    Column("training loss", lambda quality: quality.train_loss),
    Column("test loss", lambda quality: quality.loss),
    Column("cell or source", lambda quality: word(quality.source)),
]
PREPARATION_COLUMNS: list[Column[Row]] = [
    Column("network", lambda row: word(str(row["model"]))),
    Column("device", lambda row: word(str(row["device"]))),
    Column("precision", lambda row: word(str(row["precision"]))),
    Column("options", lambda row: word(options_text(row))),
    Column("epochs", lambda row: count(row["epochs"])),
    Column("seed", lambda row: count(row["seed"])),
    Column("build (s)", lambda row: number(row["build_s"])),
    Column("compile (s)", lambda row: number(row["compile_s"])),
    Column("fit (s)", lambda row: number(row["time_s"])),
    Column("training accuracy (%)", lambda row: percent(row["train_accuracy"])),
    Column("test accuracy (%)", lambda row: percent(row["accuracy"])),
    Column("parameters", lambda row: count(row["num_params"])),
]


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


def _our_quality(sweep: Sweep, model: str) -> Iterator[_Quality]:
    for device in Device:
        ours = nearest_cell(sweep, model, Mode.train, device, known="test_loss")
        if ours is not None and ours.is_ok:
            accuracies = percent(ours.row["train_accuracy"]), percent(ours.row["accuracy"])
            losses = number(ours.row["loss"]), number(ours.row["test_loss"])
            yield _Quality(model, "ours", device, *accuracies, *losses, describe(ours))


def _published_quality(sweep: Sweep, model: str) -> Iterator[_Quality]:
    for device in (None, *Device):
        metrics = ("train_accuracy", "accuracy", "loss", "validation_loss")
        found = [published.find(sweep.study, model, metric, device) for metric in metrics]
        known = next(filter(None, found), None)
        if known is not None:
            source = known.source + published_epochs(sweep.study, model)
            train_accuracy, accuracy, train_loss, loss = map(published_entry, found)
            numbers = (train_accuracy, accuracy, train_loss, loss)
            yield _Quality(model, "published", device or "not stated", *numbers, source)


@dataclass(frozen=True)
class _OneEpoch:
    """The time to build a network and train it for one epoch, ours and the published; None if unknown."""

    published: Published
    ours: ReportedCell | None

    @property
    def time_s(self) -> float | None:
        """Our seconds: building, and the first epoch with its compilation."""
        measured = self.ours.record.measurement if self.ours is not None and self.ours.record else None
        return measured.build_s + measured.epochs[0].seconds if measured is not None and measured.epochs else None


ONE_EPOCH_COLUMNS: list[Column[_OneEpoch]] = [
    Column("network", lambda one: word(one.published.model)),
    Column("device", lambda one: word(one.published.device)),
    Column("ours (s)", lambda one: number(one.time_s)),
    Column("ours: cell", lambda one: word(describe(one.ours))),
    Column("published (s)", lambda one: published_entry(one.published)),
    Column("published by", lambda one: word(one.published.source)),
]


def one_epoch(sweep: Sweep) -> Table | None:
    """The times of a single epoch, ours and the published; None if the study published none."""
    found = []
    for entry in published_for_sweep(sweep):
        if entry.metric == "one_epoch_time" and entry.device is not None:
            cell = nearest_cell(sweep, entry.model, Mode.train, Device(entry.device), known="test_loss")
            ours = cell if cell is not None and cell.is_ok else None
            found.append(_OneEpoch(entry, ours or nearest_cell(sweep, entry.model, Mode.train, Device(entry.device))))
    notes = ["One run with building and compiling; ours is the first epoch of the cell, whichever number it runs."]
    return tabulate_known("One epoch", ONE_EPOCH_COLUMNS, found, notes)


def preparation(sweep: Sweep) -> Table | None:
    """What a run costs besides its epochs: building, compiling and the first step; None if no whole run is ok."""
    rows = [row for row in sweep.ok_rows if row["protocol"] == Protocol.fit and row["mode"] == Mode.train]
    notes = [
        "Build: until model and optimiser are on the device. Fit includes compilation in the first steps; a dash: "
        "nothing is compiled. Training accuracy is of the last epoch, with the weights of each step."
    ]
    return tabulate_known("Build, compile and fit", PREPARATION_COLUMNS, rows, notes)
