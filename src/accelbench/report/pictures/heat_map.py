"""The speed of every precision at every batch size, as a map of colours."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accelbench.answers.ranking import Answer
from accelbench.presentation import significant
from accelbench.report.pictures.style import MAX_PANELS, add_panel_title, finished, sized

MAX_ROWS = 8
WIDTH_INCH = 5.4  # of a panel
DARK = 0.55  # a share of the best speed from which its text is white
Speeds = dict[str, dict[int, float]]  # setting -> batch size -> samples/s


def heat_map(answers: Sequence[Answer]) -> Figure | None:
    """A panel for each model and mode: a row for each of the fastest settings, a column for each batch size.

    None if no model has two precisions that were measured at two batch sizes.
    """
    known = [(answer, speeds) for answer in answers if (speeds := _speeds(answer))]
    if not known:
        return None
    title = f"Speed by precision and batch size, at most {MAX_ROWS} settings: the darker, the nearer to the fastest"
    if len(known) > MAX_PANELS:
        title += f" ({MAX_PANELS} of {len(known)} models)"
        known = sorted(known, key=lambda pair: -len(pair[1]))[:MAX_PANELS]
    num_columns = min(2, len(known))
    rows = [known[index : index + num_columns] for index in range(0, len(known), num_columns)]
    heights = [max(len(speeds) for _, speeds in row) for row in rows]
    figure = sized(WIDTH_INCH * num_columns, sum(0.27 * num + 0.75 for num in heights) + 0.4)
    grid = figure.subplots(len(rows), num_columns, squeeze=False, height_ratios=heights)
    for row, panels in zip(rows, grid, strict=True):
        for axes, (answer, speeds) in zip(panels, row, strict=False):
            _draw(axes, speeds)
            add_panel_title(axes, answer.title, WIDTH_INCH)
        for axes in panels[len(row) :]:
            axes.remove()
    return finished(figure, title)


def _speeds(answer: Answer) -> Speeds:
    """The speeds of the fastest settings, and of the fastest one of each precision, at each batch size.

    Empty without two precisions that were measured at two batch sizes.
    """
    sizes: dict[str, set[int]] = {}
    first_of: dict[str, str] = {}
    speeds: Speeds = {}
    for reported in answer.group.cells:
        cell, setting = reported.cell, answer.group.setting(reported)
        sizes.setdefault(cell.precision, set()).add(cell.batch_size)
        first_of.setdefault(cell.precision, setting)
        speeds.setdefault(setting, {}).setdefault(cell.batch_size, reported.number("samples_per_s") or 0.0)
    if sum(len(each) > 1 for each in sizes.values()) < 2:
        return {}
    chosen = {*list(speeds)[:MAX_ROWS], *first_of.values()}
    return {setting: by_batch for setting, by_batch in speeds.items() if setting in chosen}


def _draw(axes: Axes, speeds: Speeds) -> None:
    batches = sorted({batch for by_batch in speeds.values() for batch in by_batch})
    best = max(rate for by_batch in speeds.values() for rate in by_batch.values())
    shares = [[by_batch.get(batch, float("nan")) / best for batch in batches] for by_batch in speeds.values()]
    axes.pcolormesh(shares, cmap="Blues", vmin=0, vmax=1.1, edgecolors="white", linewidth=1.5)
    for row, by_batch in enumerate(speeds.values()):
        for column, batch in enumerate(batches):
            if (rate := by_batch.get(batch)) is not None:
                colour = "white" if rate > DARK * best else "black"
                place = (column + 0.5, row + 0.5)
                axes.annotate(significant(rate), place, ha="center", va="center", fontsize=7.5, color=colour)
    axes.invert_yaxis()
    axes.set_yticks([row + 0.5 for row in range(len(speeds))], list(speeds), fontsize=7.5)
    axes.set_xticks([column + 0.5 for column in range(len(batches))], [str(batch) for batch in batches])
    axes.set_xlabel("samples/s at each batch size", fontsize=7.5)
    axes.tick_params(length=0, labelsize=7.5)
    axes.spines[:].set_visible(False)
