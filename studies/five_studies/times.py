"""Training and testing time per network and device, ours and the published, with speed-ups: a table and a picture."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from accelbench.presentation import exact, seconds
from accelbench.report.pictures.style import COLOURS, finished, sized, tidy
from accelbench.report.read import Sweep
from accelbench.report.tables.table import Column, Entry, Table, count, number, tabulate_known, word
from accelbench.schema.vocab import Engine, Mode
from five_studies import published
from five_studies.comparison import (
    TITLES,
    OurTime,
    PublishedComparison,
    Seconds,
    compare_with_published,
    describe,
    engines,
)

WHAT_IS_TIMED = {
    Mode.train: "Our training time is of the training epochs alone: building and the evaluations between are timed "
    "apart.",
    Mode.infer: "Inference alone: the outputs of the whole test set. An evaluation also computes loss and accuracy, as "
    "Keras' evaluate does; it is timed where whole epochs are trained (protocol fit), else it is a dash.",
}
PERCENT_STUDIES = {"001"}  # they print speed-ups in percent
Columns = list[Column[PublishedComparison]]


def seconds_entry(time: Seconds | None) -> Entry:
    """A time, with `~` before an estimate."""
    return word(None) if time is None else Entry(seconds(time.value, estimated=time.estimated), time.value)


def _speedup(ours: OurTime) -> Entry:
    speedup = number(ours.speedup)
    tilde = "~" if ours.speedup is not None and ours.seconds and ours.seconds.estimated else ""
    return Entry(tilde + speedup.text, speedup.key)


def _percent_faster(compared: PublishedComparison) -> int | None:
    return None if compared.published_speedup is None else round(100 * (compared.published_speedup - 1))


def _cells(compared: PublishedComparison) -> str:
    """The cells that ours are of, or why there is no time; what is so with every engine is said once."""
    texts = {engine: describe(ours.cell) for engine, ours in compared.ours.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    has_time = {engine for engine, ours in compared.ours.items() if ours.seconds}
    return "; ".join(text if engine in has_time else f"{engine} {text}" for engine, text in texts.items())


def _columns_of(engine: Engine, mode: Mode) -> tuple[Columns, Columns]:
    """The seconds of an engine, and its speed-up."""
    what = {Mode.train: f"{engine} (s)", Mode.infer: f"{engine}: inference (s)"}[mode]
    times: Columns = [Column(what, lambda compared: seconds_entry(compared.ours[engine].seconds))]
    if mode == Mode.infer:
        heading = f"{engine}: one evaluation (s)"
        times.insert(0, Column(heading, lambda compared: seconds_entry(compared.ours[engine].evaluation)))
    return times, [Column(f"{engine}: speed-up (x)", lambda compared: _speedup(compared.ours[engine]))]


def table(sweep: Sweep, mode: Mode) -> Table | None:
    """The published time per network and device beside ours; None if there is neither."""
    comparisons = compare_with_published(sweep, mode)
    if not comparisons:
        return None
    near = f"the settings of study {sweep.study}" if sweep.study else "fp32, batch 128"
    order = "precision first, then batch, then epochs" if mode == Mode.train else "precision first, then batch"
    notes = [
        f"Ours: the ok cell nearest to {near} ({order}; the first seed and repeat), never a mean over cells. "
        "~ marks an estimate: the time of a window, or of fewer samples or epochs, plus what the rest of the job takes "
        "at the cell's samples/s.",
        "Our speed-up is CPU time / device time (x), of two cells that differ only in the device.",
        WHAT_IS_TIMED[mode],
    ]
    is_published = any(compared.published for compared in comparisons)
    if is_published:
        settings = _published_settings(comparisons, sweep.study)
        notes.append(f"Published times were not measured by accelbench ({settings}).")
        if sweep.study in PERCENT_STUDIES:
            notes.append("The study prints speed-ups as (CPU time / device time - 1) x 100 %; x is defined like ours.")
        if (own := published.framework(sweep.study)) is not None:
            notes.append(f"The study's own framework is {own.capitalize()}: its seconds stand next to the published.")
    parts = [_columns_of(engine, mode) for engine in engines(sweep)]
    columns: Columns = [
        Column("network", lambda compared: compared.model),
        Column("device", lambda compared: compared.device_text),
        Column("time of", lambda compared: compared.job),
        Column("published (s)", lambda compared: published.entry(compared.published)),
        *(column for times, _ in parts for column in times),
        Column("published: speed-up (x)", lambda compared: compared.published_speedup, number),
        *(column for _, speedups in parts for column in speedups),
        Column("ours: cells", _cells),
    ]
    if sweep.study in PERCENT_STUDIES:
        columns.insert(-1, Column("published: speed-up as the study prints it (%)", _percent_faster, count))
    return tabulate_known(TITLES[mode], columns, comparisons, notes)


def _published_settings(comparisons: Sequence[PublishedComparison], study: str | None) -> str:
    """What the published networks ran with: `fp32, batch 128, 5 epochs: mlp on cpu, gpu`."""
    devices: dict[tuple[str, str], list[str]] = defaultdict(list)
    for compared in comparisons:
        if (theirs := compared.published) is not None:
            epochs = published.epochs_text(study, compared.model) if compared.mode == Mode.train else ""
            batch = f"batch {theirs.batch_size}{published.mark(theirs, 'batch_size')}"
            devices[f"{theirs.precision}, {batch}{epochs}", compared.model].append(compared.device_text)
    return "; ".join(f"{settings}: {model} on {', '.join(names)}" for (settings, model), names in devices.items())


# The opacity of a device's colour for each engine that a study may have beside its own.
SHADES = {Engine.keras: 1.0, Engine.lightning: 0.45}


class _Bar(NamedTuple):
    """A time of a device, of ours with an engine, or published."""

    mode: Mode
    model: str
    engine: Engine | None  # None if it was published
    device: str
    colour: str
    seconds: float
    text: str

    @property
    def kind(self) -> tuple[str, str]:
        """Whose it is, and of which device: what one entry of the legend stands for."""
        return self.device, self.engine or "published"

    @property
    def fill(self) -> dict[str, Any]:
        """Its look."""
        look: dict[str, Any] = {"edgecolor": self.colour}
        if self.engine is None:
            return look | {"facecolor": "white", "hatch": "////"}
        return look | {"facecolor": (self.colour, SHADES.get(self.engine, 0.2)), "hatch": None}


def _bars(compared: PublishedComparison, *, evaluated: bool) -> Iterator[_Bar]:
    """The bars of a network on a device; with `evaluated`, ours of testing are of an evaluation, as the study's are."""
    place = (compared.mode, compared.model)
    device = (compared.device_text, COLOURS[compared.device])
    if compared.published is not None:
        yield _Bar(*place, None, *device, compared.published.value, exact(compared.published.value))
    for engine, ours in compared.ours.items():
        if (time := ours.evaluation if evaluated else ours.seconds) is not None:
            yield _Bar(*place, engine, *device, time.value, seconds_entry(time).text)


def picture(comparisons: Sequence[PublishedComparison], title: str, warning: str) -> Figure | None:
    """Grouped bars of seconds, with the values written on them; None if no time is known."""
    # Evaluations, if all of ours of a network have one; else inference alone.
    alone = {each.model for each in comparisons for ours in each.ours.values() if ours.seconds and not ours.evaluation}
    evaluated = [each.mode == Mode.infer and each.model not in alone for each in comparisons]
    bars = [bar for each, tested in zip(comparisons, evaluated, strict=True) for bar in _bars(each, evaluated=tested)]
    if not bars:
        return None
    modes = [mode for mode in Mode if any(bar.mode == mode for bar in bars)]
    models = list(dict.fromkeys(bar.model for bar in bars))
    jobs = {(compared.mode, compared.model): compared.job for compared in comparisons if compared.job}
    kinds = list(dict.fromkeys(bar.kind for bar in bars))
    width = max(6.5, 0.3 * len(kinds) * len(models))
    figure = sized(width, 3.4 * len(modes))
    for axes, mode in zip(figure.subplots(len(modes), squeeze=False)[:, 0], modes, strict=True):
        names = {model: "\n".join(filter(None, [model, jobs.get((mode, model))])) for model in models}
        if mode == Mode.infer:
            tested = {model: "inference" if model in alone else "evaluation" for model in names}
            names = {model: f"{name}\nours: {tested[model]}" for model, name in names.items()}
        _draw_bars(axes, [bar for bar in bars if bar.mode == mode], kinds, names)
        axes.set_title(TITLES[mode], fontsize=10, loc="left")
        axes.set_ylabel("seconds")
    handles = [Patch(**bar.fill, label=", ".join(bar.kind)) for bar in {bar.kind: bar for bar in bars}.values()]
    return finished(figure, f"{title} (~ marks an estimated time)", warning, handles, int(width / 1.7))


def _draw_bars(axes: Axes, bars: Sequence[_Bar], kinds: Sequence[tuple[str, str]], names: Mapping[str, str]) -> None:
    written: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "bottom", "rotation": 90}
    for group, model in enumerate(names):
        inside = [bar for bar in bars if bar.model == model]
        # Only kinds that this network has take room.
        width = 0.86 / max(3, len(inside))
        for place, bar in enumerate(sorted(inside, key=lambda bar: kinds.index(bar.kind))):
            x = group + width * (place - (len(inside) - 1) / 2)
            axes.bar(x, bar.seconds, width * 0.9, **bar.fill)
            axes.annotate(bar.text, (x, bar.seconds), (0, 3), fontsize=8, **written)
    low, high = min(bar.seconds for bar in bars), max(bar.seconds for bar in bars)
    axes.set_yscale("log")
    axes.set_ylim(low / 3, high * 3 * (high / low) ** 0.3)  # the written values need room above the tallest bar
    axes.yaxis.set_major_formatter("{x:,.9g}")
    axes.set_xticks(range(len(names)), list(names.values()))
    axes.set_xlim(-0.5, len(names) - 0.5)
    tidy(axes)
