"""What the report's tables say."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from accelbench.presentation import exact, seconds
from accelbench.report import published
from accelbench.report.published import Published
from accelbench.report.read import NOT_RUN, ReportedCell, Sweep
from accelbench.report.tables.options import named
from accelbench.report.tables.study_times import TITLES, Comparison, compare, nearest, published_of
from accelbench.report.tables.table import Entry, Table, count, number, percent, word
from accelbench.schema.vocab import UNEXPECTED, Device, Mode, Protocol, Status

LABELS_SHOWN = 2
PERCENT_STUDIES = {"001"}  # that print speed-ups in percent


def times(sweep: Sweep, mode: Mode) -> Table | None:
    """Our time per network and device beside the published one; None where there is neither."""
    comparisons = compare(sweep, mode)
    if not comparisons:
        return None
    headings = ["network", "device", "ours (s)", "ours: speed-up (x)", "ours: cell"]
    near = f"the settings of study {sweep.study}" if sweep.study else "fp32, batch 128"
    order = "precision first, then batch, then epochs" if mode == Mode.train else "precision first, then batch"
    notes = [
        f"Ours: the ok cell nearest to {near} ({order}; the first seed and repeat), never a mean over cells. "
        "~ marks a time estimated from a bounded window's throughput; without it, the time is measured.",
        "Our speed-up is CPU time / device time (x), of two cells that are equal in all but the device.",
    ]
    if any(comparison.published for comparison in comparisons):
        headings += ["published (s)", "published: speed-up (x)"]
        settings = _settings(comparisons, sweep.study)
        notes.append(f"Published times were not measured by accelbench ({settings}).")
        if sweep.study in PERCENT_STUDIES:
            headings.append("published: speed-up as the study prints it (%)")
            notes.append("The study prints speed-ups as (CPU time / device time - 1) x 100 %; x is as ours.")
    rows = [_comparison(comparison)[: len(headings)] for comparison in comparisons]
    return Table(title=TITLES[mode], headings=headings, rows=rows, notes=notes)


def _comparison(compared: Comparison) -> list[Entry]:
    theirs, gain = compared.published, compared.published_speedup
    speedup = number(compared.speedup)
    tilde = "~" if compared.estimated and compared.speedup is not None else ""
    return [
        word(compared.model),
        word(compared.device),
        Entry(seconds(compared.time_s, estimated=compared.estimated), compared.time_s),
        Entry(tilde + speedup.text, speedup.key),
        word(describe(compared.ours)),
        published_number(theirs),
        number(gain),
        count(round(100 * (gain - 1)) if gain is not None else None),
    ]


def _settings(comparisons: Iterable[Comparison], study: str | None) -> str:
    """What the published networks ran with: `fp32, batch 128, 5 epochs: mlp on cpu, gpu`."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in comparisons:
        if each.published is not None:
            epochs = _published_epochs(study, each.model) if each.mode == Mode.train else ""
            settings = f"{each.published.precision}, batch {each.published.batch_size}{epochs}"
            places[settings, each.model].append(each.device)
    return "; ".join(f"{settings}: {model} on {', '.join(names)}" for (settings, model), names in places.items())


def _published_epochs(study: str | None, model: str) -> str:
    """How many epochs a study trained a network for, as `, 5 epochs`; nothing where it does not say."""
    entry = published.find(study, model, "epochs", None)
    return f", {entry.value:g} epochs" if entry else ""


def published_number(entry: Published | None) -> Entry:
    """A published number with every digit that it was published with."""
    value = entry.value if entry else None
    return Entry(exact(value), value)


def describe(planned: ReportedCell | None) -> str:
    """Which cell a number is of, or why there is none."""
    if planned is None:
        return "not planned"
    cell, measured = planned.cell, planned.record.measurement if planned.record else None
    settings = f"{cell.precision}, batch {cell.batch_size}"
    settings += f", {options}" if (options := named(planned.row)) else ""
    if not planned.is_ok or measured is None:
        reason = planned.record.reason if planned.record else None
        return f"{planned.outcome}: {reason}" if reason else planned.outcome
    passes = len(measured.epochs) or (cell.epochs if cell.mode == Mode.train else 1)
    samples = measured.num_train_samples if cell.mode == Mode.train else measured.num_test_samples
    amount = f"{passes} x {samples:,} samples, " if samples is not None else ""  # random images have no number
    return f"{settings}, {amount}{cell.protocol}"


def quality(sweep: Sweep) -> Table | None:
    """Accuracy and loss on the test set, ours and published; None where there is neither."""
    rows = []
    models = dict.fromkeys([entry.model for entry in published_of(sweep)])
    models |= dict.fromkeys(planned.cell.model.name for planned in sweep.cells)
    for model in models:
        for device in Device:
            ours = nearest(sweep, model, Mode.train, device, known="test_loss")
            if ours is not None and ours.is_ok:
                row = ours.row
                rows.append(
                    [word(model), word("ours"), word(device), percent(row["accuracy"]), number(row["test_loss"])]
                    + [word(describe(ours))]
                )
        for place in (None, *Device):
            accuracy = published.find(sweep.study, model, "accuracy", place)
            loss = published.find(sweep.study, model, "validation_loss", place)
            source = accuracy or loss
            if source is not None:
                shown = [published_number(accuracy), published_number(loss)]
                rows.append(
                    [word(model), word("published"), word(place or "not stated"), *shown]
                    + [word(source.source + _published_epochs(sweep.study, model))]
                )
    headings = ["network", "whose", "device", "test accuracy (%)", "test loss", "cell or source"]
    notes = ["Ours are measured after whole epochs (protocol fit) only: a bounded window of steps has none."]
    return Table(title="Accuracy and loss", headings=headings, rows=rows, notes=notes) if rows else None


def preparation(sweep: Sweep) -> Table | None:
    """What a run costs besides its epochs: building, compiling and the first step; None where no whole run is ok."""
    rows = [
        [*(word(str(row[column])) for column in ("model", "device", "precision")), word(named(row))]
        + [count(row["epochs"]), count(row["seed"])]
        + [number(row[column]) for column in ("build_s", "compile_s", "time_s")]
        + [percent(row["train_accuracy"]), percent(row["accuracy"]), count(row["num_params"])]
        for row in (planned.row for planned in sweep.cells if planned.is_ok)
        if row["protocol"] == Protocol.fit and row["mode"] == Mode.train
    ]
    headings = ["network", "device", "precision", "options", "epochs", "seed", "build (s)", "compile (s)", "fit (s)"]
    headings += ["training accuracy (%)", "test accuracy (%)", "parameters"]
    notes = [
        "Build: from nothing to model and optimiser on the device. Fit holds what is compiled in its first steps; "
        "a dash: nothing is. Training accuracy is of the last epoch, as the weights were at each step."
    ]
    return Table(title="Build, compile and fit", headings=headings, rows=rows, notes=notes).known() if rows else None


def troubles(sweeps: Sequence[Sweep]) -> Table | None:
    """What is not ok, grouped by why, what nobody asked for first; None where all is."""
    groups: dict[tuple[str, str | None], list[ReportedCell]] = defaultdict(list)
    for planned in (planned for sweep in sweeps for planned in sweep.cells if not planned.is_ok):
        groups[planned.outcome, _reason(planned)].append(planned)
    order = [*(status for status in Status if status in UNEXPECTED), NOT_RUN, Status.skipped]
    ranked = sorted(groups.items(), key=lambda item: (order.index(item[0][0]), -len(item[1])))
    rows = [
        [word(outcome), count(len(cells)), word(reason), word(_some(planned.label for planned in cells))]
        + [word(", ".join(dict.fromkeys(planned.cell.suite for planned in cells)))]
        for (outcome, reason), cells in ranked
    ]
    return (
        Table(
            title="What is missing, and why",
            headings=["status", "cells", "reason", "which", "suites"],
            rows=rows,
            notes=["The table of every cell names all of them."],
        )
        if rows
        else None
    )


def failures(sweeps: Sequence[Sweep]) -> Table | None:
    """Each cell that ended as nobody asked for, with its error's last line; None where none did."""
    rows = [
        [word(sweep.suite), word(planned.label), word(planned.outcome), word(_reason(planned))]
        + [word(_last_line(planned.record.error))]
        for sweep in sweeps
        for planned in sweep.cells
        if planned.record is not None and planned.record.status in UNEXPECTED
    ]
    headings = ["suite", "cell", "status", "reason", "last line of the error"]
    return Table(title="Failed, cell by cell", headings=headings, rows=rows) if rows else None


def _reason(planned: ReportedCell) -> str | None:
    return planned.record.reason if planned.record else None


def _last_line(error: str | None) -> str | None:
    lines = (error or "").strip().splitlines()
    return lines[-1].strip() if lines else None


def _some(labels: Iterable[str]) -> str:
    shown = list(labels)
    more = len(shown) - LABELS_SHOWN
    return ", ".join(shown[:LABELS_SHOWN]) + (f" and {more} more" if more > 0 else "")
