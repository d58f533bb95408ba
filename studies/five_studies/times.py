"""Training and testing time per network and device, ours and the published, with speed-ups: a table and a picture."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from accelbench.presentation import exact, seconds
from accelbench.report.pictures.style import COLOURS, finished, sized, tidy
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Column, Entry, Table, count, number, tabulate
from accelbench.schema.vocab import Device, Mode
from five_studies import published
from five_studies.comparison import TITLES, PublishedComparison, compare_with_published, describe

WHAT_IS_TIMED = {
    Mode.train: "Our training time is of the training epochs alone: evaluations between them are timed apart.",
    Mode.infer: "Ours (s) is inference alone: the outputs of the whole test set. An evaluation also computes loss and "
    "accuracy, as Keras' evaluate does; it is timed where whole epochs are trained (protocol fit), else it is a dash.",
}
PERCENT_STUDIES = {"001"}  # they print speed-ups in percent


def _speedup(compared: PublishedComparison) -> Entry:
    speedup = number(compared.speedup)
    tilde = "~" if compared.estimated and compared.speedup is not None else ""
    return Entry(tilde + speedup.text, speedup.key)


def _percent_faster(compared: PublishedComparison) -> int | None:
    return None if compared.published_speedup is None else round(100 * (compared.published_speedup - 1))


OUR_COLUMNS: list[Column[PublishedComparison]] = [
    Column("network", lambda compared: compared.model),
    Column("device", lambda compared: compared.device),
    Column("ours (s)", lambda each: Entry(seconds(each.time_s, estimated=each.estimated), each.time_s)),
    Column("ours: speed-up (x)", _speedup),
    Column("ours: cell", lambda compared: describe(compared.ours)),
]
EVALUATION_COLUMN: Column[PublishedComparison] = Column(
    "ours: one evaluation (s)", lambda compared: compared.evaluation_s, number
)
PUBLISHED_COLUMNS: list[Column[PublishedComparison]] = [
    Column("published (s)", lambda compared: published.entry(compared.published)),
    Column("published: speed-up (x)", lambda compared: compared.published_speedup, number),
]
PERCENT_COLUMN = Column("published: speed-up as the study prints it (%)", _percent_faster, count)


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


def _published_settings(comparisons: Sequence[PublishedComparison], study: str | None) -> str:
    """What the published networks ran with: `fp32, batch 128, 5 epochs: mlp on cpu, gpu`."""
    devices: dict[tuple[str, str], list[str]] = defaultdict(list)
    for compared in comparisons:
        if (theirs := compared.published) is not None:
            epochs = published.epochs_text(study, compared.model) if compared.mode == Mode.train else ""
            batch = f"batch {theirs.batch_size}{published.mark(theirs, 'batch_size')}"
            devices[f"{theirs.precision}, {batch}{epochs}", compared.model].append(compared.device)
    return "; ".join(f"{settings}: {model} on {', '.join(names)}" for (settings, model), names in devices.items())


class _Bar(NamedTuple):
    """A time; ours are those that no study published, and their work says what they are of."""

    mode: Mode
    model: str
    is_published: bool
    device: Device
    time_s: float
    text: str
    work: str = ""

    @property
    def kind(self) -> tuple[bool, int]:
        """Its place in a group: our bars come first."""
        return self.is_published, list(Device).index(self.device)

    @property
    def fill(self) -> dict[str, Any]:
        """Its look."""
        colour = COLOURS[self.device]
        hatched = {"facecolor": "white", "hatch": "////"}
        return {"edgecolor": colour} | (hatched if self.is_published else {"facecolor": colour, "hatch": None})


def picture(comparisons: Sequence[PublishedComparison], title: str, warning: str) -> Figure | None:
    """Grouped bars of seconds, with the values written on them; None if no time is known."""
    bars = []
    for each in comparisons:
        place = (each.mode, each.model)
        if each.time_s is not None:
            text = seconds(each.time_s, estimated=each.estimated)
            bars.append(_Bar(*place, False, each.device, each.time_s, text, each.work))
        if each.published is not None:
            bars.append(_Bar(*place, True, each.device, each.published.value, exact(each.published.value)))
    if not bars:
        return None
    modes = [mode for mode in Mode if any(bar.mode == mode for bar in bars)]
    models = list(dict.fromkeys(bar.model for bar in bars))
    width = max(6.5, 2.4 * len(models))
    figure = sized(width, 3.4 * len(modes))
    for axes, mode in zip(figure.subplots(len(modes), squeeze=False)[:, 0], modes, strict=True):
        inside = [bar for bar in bars if bar.mode == mode]
        _draw_bars(axes, inside, models)
        heading = TITLES[mode]
        if any(bar.is_published for bar in inside):  # ours and theirs may be of different work; of a stand-in they are
            of = "evaluations of the study's own data" if mode == Mode.infer else "of the study's own data and epochs"
            heading += f" ({'not comparable: ' if warning else ''}the published times are {of})"
        axes.set_title(heading, fontsize=10, loc="left")
        axes.set_ylabel("seconds")
    shown = {bar.kind: bar for bar in sorted(bars, key=lambda bar: bar.kind)}
    names = ("ours", "published")
    handles = [Patch(**bar.fill, label=f"{bar.device}, {names[bar.is_published]}") for bar in shown.values()]
    return finished(figure, f"{title} (~ marks an estimated time)", warning, handles, int(width / 1.6))


def _draw_bars(axes: Axes, bars: Sequence[_Bar], models: Sequence[str]) -> None:
    kinds = sorted({bar.kind for bar in bars})
    width = 0.86 / len(kinds)
    written: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "rotation": 90}
    for bar in bars:
        x = models.index(bar.model) - 0.43 + width * (kinds.index(bar.kind) + 0.5)
        axes.bar(x, bar.time_s, width * 0.9, **bar.fill)
        axes.annotate(bar.text, (x, bar.time_s), (0, 3), fontsize=8, **written)
    low, high = min(bar.time_s for bar in bars), max(bar.time_s for bar in bars)
    axes.set_yscale("log")
    axes.set_ylim(low / 3, high * 3 * (high / low) ** 0.3)  # the written values need room above the tallest bar
    axes.yaxis.set_major_formatter("{x:,.9g}")
    works = {model: {bar.work for bar in bars if bar.model == model and bar.work} for model in models}
    axes.set_xticks(range(len(models)), ["\nours: ".join([model, *sorted(works[model])]) for model in models])
    axes.set_xlim(-0.5, len(models) - 0.5)
    tidy(axes)
