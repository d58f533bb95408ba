"""Training and testing time per network and device, ours and the published."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from accelbench.presentation import exact, seconds
from accelbench.report.pictures.style import COLOURS, DPI, add_legend, add_title, tidy
from accelbench.schema.vocab import Device, Mode
from five_studies.comparison import TITLES, PublishedComparison

DEVICES = list(Device)
Kind = tuple[bool, int]  # whether published, and the device's index in the vocabulary: our bars come first


def times(comparisons: Sequence[PublishedComparison], title: str, warning: str) -> Figure | None:
    """Grouped bars of seconds, with the values written on them; None if no time is known."""
    bars = list(_bars(comparisons))
    if not bars:
        return None
    modes = [mode for mode in Mode if any(bar.mode == mode for bar in bars)]
    models = list(dict.fromkeys(bar.model for bar in bars))
    width = max(6.5, 2.4 * len(models))
    figure = Figure(figsize=(width, 3.4 * len(modes)), layout="constrained", dpi=DPI)
    for axes, mode in zip(figure.subplots(len(modes), squeeze=False)[:, 0], modes, strict=True):
        _draw_bars(axes, [bar for bar in bars if bar.mode == mode], models)
        axes.set_title(_title(mode, bars, is_comparable=not warning), fontsize=10, loc="left")
        axes.set_ylabel("seconds")
    kinds = sorted({bar.kind for bar in bars})
    add_legend(figure, [Patch(**_fill(kind), label=_kind_label(kind)) for kind in kinds], int(width / 1.6))
    add_title(figure, f"{title} (~ marks an estimated time)", warning)
    return figure


def _title(mode: Mode, bars: Iterable["_Bar"], *, is_comparable: bool) -> str:
    """The panel's title, which says so where ours and the published times may be of different work.

    Of a stand-in they are, which is why the picture has a warning.
    """
    if not any(bar.mode == mode and bar.is_published for bar in bars):
        return TITLES[mode]
    of = "evaluations of the study's own data" if mode == Mode.infer else "of the study's own data and epochs"
    return f"{TITLES[mode]} ({'' if is_comparable else 'not comparable: '}the published times are {of})"


@dataclass(frozen=True, kw_only=True)
class _Bar:
    mode: Mode
    model: str
    kind: Kind
    time_s: float
    text: str
    work: str = ""  # of ours: what the time is of

    @property
    def is_published(self) -> bool:
        """Whether a study published it."""
        return self.kind[0]


def _bars(comparisons: Sequence[PublishedComparison]) -> Iterator[_Bar]:
    for compared in comparisons:
        device = DEVICES.index(compared.device)
        if compared.time_s is not None:
            text = seconds(compared.time_s, estimated=compared.estimated)
            kind = (False, device)
            bar = _Bar(mode=compared.mode, model=compared.model, kind=kind, time_s=compared.time_s, text=text)
            yield replace(bar, work=compared.work)
        if compared.published is not None:
            time_s, kind = compared.published.value, (True, device)
            yield _Bar(mode=compared.mode, model=compared.model, kind=kind, time_s=time_s, text=exact(time_s))


def _fill(kind: Kind) -> dict[str, Any]:
    is_published, device = kind
    colour = COLOURS[DEVICES[device]]
    return {
        "facecolor": "white" if is_published else colour,
        "edgecolor": colour,
        "hatch": "////" if is_published else None,
    }


def _kind_label(kind: Kind) -> str:
    is_published, device = kind
    return f"{DEVICES[device]}, {'published' if is_published else 'ours'}"


def _draw_bars(axes: Axes, bars: Sequence[_Bar], models: Sequence[str]) -> None:
    """A group of bars per model; a gap where a time is unknown."""
    kinds = sorted({bar.kind for bar in bars})
    width = 0.86 / len(kinds)
    for bar in bars:
        x = models.index(bar.model) - 0.43 + width * (kinds.index(bar.kind) + 0.5)
        axes.bar(x, bar.time_s, width * 0.9, **_fill(bar.kind))
        top = (x, bar.time_s)
        axes.annotate(
            bar.text, top, (0, 3), textcoords="offset points", ha="center", va="bottom", rotation=90, fontsize=8
        )
    low, high = min(bar.time_s for bar in bars), max(bar.time_s for bar in bars)
    axes.set_yscale("log")
    axes.set_ylim(low / 3, high * 3 * (high / low) ** 0.3)  # the written values need room above the tallest bar
    axes.yaxis.set_major_formatter("{x:,.9g}")
    works = {model: {bar.work for bar in bars if bar.model == model and bar.work} for model in models}
    axes.set_xticks(range(len(models)), ["\nours: ".join([model, *sorted(works[model])]) for model in models])
    axes.set_xlim(-0.5, len(models) - 0.5)
    tidy(axes)
