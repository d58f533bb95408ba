"""Training and testing time per network and device, ours and the published, with speed-ups."""

from collections import defaultdict
from collections.abc import Iterable

from accelbench.answers.words import options_text
from accelbench.presentation import exact, seconds
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.table import Column, Entry, Table, count, number, tabulate, word
from accelbench.schema.vocab import Mode
from five_studies import published
from five_studies.comparison import TITLES, PublishedComparison, compare_with_published, work_text
from five_studies.published import Published

WHAT_IS_TIMED = {
    Mode.train: "Our training time is of the training epochs alone: evaluations between them are timed apart.",
    Mode.infer: "Ours (s) is inference alone: the outputs of the whole test set. An evaluation also computes loss and "
    "accuracy, as Keras' evaluate does; it is timed where whole epochs are trained (protocol fit), else it is a dash.",
}
PERCENT_STUDIES = {"001"}  # they print speed-ups in percent


def table(sweep: Sweep, mode: Mode) -> Table | None:
    """Our time per network and device and the published one; None if there is neither."""
    comparisons = compare_with_published(sweep, mode)
    if not comparisons:
        return None
    columns = list(OUR_COLUMNS)
    near = f"the settings of study {sweep.study}" if sweep.study else "fp32, batch 128"
    order = "precision first, then batch, then epochs" if mode == Mode.train else "precision first, then batch"
    notes = [
        f"Ours: the ok cell nearest to {near} ({order}; the first seed and repeat), never a mean over cells. "
        "~ marks a time that is estimated from a bounded window's throughput; other times are measured.",
        "Our speed-up is CPU time / device time (x), of two cells that differ only in the device.",
        WHAT_IS_TIMED[mode],
    ]
    is_published = any(compared.published for compared in comparisons)
    if mode == Mode.infer and (is_published or any(compared.evaluation_s is not None for compared in comparisons)):
        columns.append(EVALUATION_COLUMN)
    if is_published:
        columns += PUBLISHED_COLUMNS
        settings = _published_settings(comparisons, sweep.study)
        notes.append(f"Published times were not measured by accelbench ({settings}).")
        if sweep.study in PERCENT_STUDIES:
            columns.append(PERCENT_COLUMN)
            notes.append("The study prints speed-ups as (CPU time / device time - 1) x 100 %; x is defined like ours.")
    return tabulate(TITLES[mode], columns, comparisons, notes)


def describe(reported: ReportedCell | None) -> str:
    """Which cell a number belongs to, or why there is no number."""
    if reported is None:
        return "not planned"
    cell, measured = reported.cell, reported.record.measurement if reported.record else None
    settings = f"{cell.precision}, batch {cell.batch_size}"
    settings += f", {options}" if (options := options_text(reported.row)) else ""
    if not reported.is_ok or measured is None:
        return f"{reported.outcome}: {reported.reason}" if reported.reason else reported.outcome
    amount = f"{work}, " if (work := work_text(cell, measured)) else ""
    return f"{settings}, {amount}{cell.protocol}"


def published_entry(published_number: Published | None) -> Entry:
    """A published number with every digit that it was published with."""
    value = published_number.value if published_number else None
    return Entry(exact(value), value)


def published_epochs(study: str | None, model: str) -> str:
    """How many epochs a study trained a network for, as `, 5 epochs`; empty if it does not say."""
    entry = published.find(study, model, "epochs", None)
    return f", {entry.value:g} epochs{_mark(entry, 'value')}" if entry else ""


def _mark(entry: Published, what: str) -> str:
    return " (assumed)" if entry.assumed == what else ""


def _published_settings(comparisons: Iterable[PublishedComparison], study: str | None) -> str:
    """What the published networks ran with: `fp32, batch 128, 5 epochs: mlp on cpu, gpu`."""
    devices: dict[tuple[str, str], list[str]] = defaultdict(list)
    for compared in comparisons:
        if compared.published is not None:
            epochs = published_epochs(study, compared.model) if compared.mode == Mode.train else ""
            batch = f"batch {compared.published.batch_size}{_mark(compared.published, 'batch_size')}"
            settings = f"{compared.published.precision}, {batch}{epochs}"
            devices[settings, compared.model].append(compared.device)
    return "; ".join(f"{settings}: {model} on {', '.join(names)}" for (settings, model), names in devices.items())


def _speedup(compared: PublishedComparison) -> Entry:
    speedup = number(compared.speedup)
    tilde = "~" if compared.estimated and compared.speedup is not None else ""
    return Entry(tilde + speedup.text, speedup.key)


def _percent_faster(compared: PublishedComparison) -> Entry:
    gain = compared.published_speedup
    return count(round(100 * (gain - 1)) if gain is not None else None)


OUR_COLUMNS: list[Column[PublishedComparison]] = [
    Column("network", lambda compared: word(compared.model)),
    Column("device", lambda compared: word(compared.device)),
    Column(
        "ours (s)",
        lambda compared: Entry(seconds(compared.time_s, estimated=compared.estimated), compared.time_s),
    ),
    Column("ours: speed-up (x)", _speedup),
    Column("ours: cell", lambda compared: word(describe(compared.ours))),
]
EVALUATION_COLUMN: Column[PublishedComparison] = Column(
    "ours: one evaluation (s)", lambda compared: number(compared.evaluation_s)
)
PUBLISHED_COLUMNS: list[Column[PublishedComparison]] = [
    Column("published (s)", lambda compared: published_entry(compared.published)),
    Column("published: speed-up (x)", lambda compared: number(compared.published_speedup)),
]
PERCENT_COLUMN = Column("published: speed-up as the study prints it (%)", _percent_faster)
