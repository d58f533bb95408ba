"""Training and testing times per network and device, ours and the published ones, with speed-ups."""

from accelbench.presentation import significant
from accelbench.report.read import Sweep
from accelbench.report.table import Column, Entry, Table, count, number, tabulate_known, word
from accelbench.schema.cell import Engine, Mode
from five_studies import published
from five_studies.comparison import (
    TITLES,
    PublishedComparison,
    Seconds,
    compare_with_published,
    describe,
    engines,
    stand_in,
)

WHAT_IS_TIMED = {
    Mode.train: "Our training time counts only the training epochs. Building and evaluations are timed separately.",
    Mode.infer: "Inference only computes the outputs of the test set. An evaluation also computes loss and accuracy, "
    "as Keras' evaluate does. It is timed if whole epochs are trained (protocol fit), else it is a dash.",
}
PERCENT_STUDIES = {"001"}  # studies that print speed-ups in percent
Columns = list[Column[PublishedComparison]]


def seconds_entry(time: Seconds | None) -> Entry:
    """A time, with `~` before an estimate."""
    return word(None) if time is None else Entry(f"{'~' * time.estimated}{significant(time.value)}", time.value)


def _percent_faster(compared: PublishedComparison) -> int | None:
    return None if compared.published_speedup is None else round(100 * (compared.published_speedup - 1))


def _cells(compared: PublishedComparison) -> str:
    """The cells that our times are from, with cells of evaluations first; or the reason why there is no time."""
    tested = [ours.tested for ours in compared.ours.values() if ours.evaluation]
    timed = tested + [ours.cell for ours in compared.ours.values() if ours.seconds]
    return "; ".join(dict.fromkeys(map(describe, timed or [ours.cell for ours in compared.ours.values()])))


def _stand_in(compared: PublishedComparison) -> str:
    timed = [ours.cell for ours in compared.ours.values() if ours.seconds]
    tested = [ours.tested for ours in compared.ours.values() if ours.evaluation]
    return max(map(stand_in, timed + tested), default="")


def _columns_of(engine: Engine, mode: Mode) -> Columns:
    what = {Mode.train: f"{engine} (s)", Mode.infer: f"{engine}: inference (s)"}[mode]
    time: Columns = [Column(what, lambda compared: seconds_entry(compared.ours[engine].seconds))]
    if mode == Mode.train:
        return time
    heading = f"{engine}: one evaluation (s)"
    return [Column(heading, lambda compared: seconds_entry(compared.ours[engine].evaluation)), *time]


def table(sweep: Sweep, mode: Mode) -> Table | None:
    """The published time per network and device beside ours. None if there is no time."""
    found = compare_with_published(sweep, mode)
    timed = [any(ours.seconds or ours.evaluation for ours in each.ours.values()) for each in found]
    comparisons = [each for each, is_timed in zip(found, timed, strict=True) if each.published or is_timed]
    near = f"the settings of study {sweep.study}" if sweep.study else "fp32, batch 128"
    order = "precision first, then batch, then epochs" if mode == Mode.train else "precision first, then batch"
    notes = [
        f"Ours: the time of the ok cell nearest to {near} ({order}; the first seed and repeat), never a mean. "
        "~ marks an estimate, if a cell did only a part of the job: its time, plus the time that the rest takes at its "
        "samples/s.",
        WHAT_IS_TIMED[mode],
    ]
    if any(compared.published for compared in comparisons):
        notes.append("Published times were not measured by accelbench. Speed-ups: CPU time / device time.")
        if (own := published.framework(sweep.study)) is not None:
            notes.append(
                f"The study's own framework is {own.capitalize()}: its seconds stand beside the published ones."
            )
    columns: Columns = [
        Column("network", lambda compared: compared.model),
        Column("device", lambda compared: compared.device_text),
        Column("time of", lambda compared: compared.job),
        Column("published (s)", lambda compared: published.entry(compared.published)),
        Column("ours: data", _stand_in),
        *(column for engine in engines(sweep) for column in _columns_of(engine, mode)),
        Column("published: speed-up (x)", lambda compared: compared.published_speedup, number),
        Column("published with", lambda compared: _settings(compared, sweep.study)),
        Column("ours: cells", _cells),
    ]
    if sweep.study in PERCENT_STUDIES:
        columns.insert(-2, Column("published: speed-up as the study prints it (%)", _percent_faster, count))
        notes.append("The study prints speed-ups as (CPU time / device time - 1) x 100 %.")
    return tabulate_known(TITLES[mode], columns, comparisons, notes)


def _settings(compared: PublishedComparison, study: str | None) -> str | None:
    """The settings of the published network, such as `fp32, batch 128, 5 epochs`."""
    if (theirs := compared.published) is None:
        return None
    epochs = published.epochs_text(study, compared.model) if compared.mode == Mode.train else ""
    return f"{theirs.precision}, batch {theirs.batch_size}{published.mark(theirs, 'batch_size')}{epochs}"
