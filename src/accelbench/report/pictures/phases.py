"""Where a step's time goes, by phase."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from accelbench.answers.process import Process
from accelbench.judging.row import phases_ms
from accelbench.presentation import PHASE_COLOURS, significant
from accelbench.report.pictures.style import finished, sized, tidy
from accelbench.schema.vocab import Phase

MAX_BARS = 40


def phases(cells: Sequence[Process], title: str) -> Figure | None:
    """A bar per cell, the phases as shares of a step's wall time; None if no cell has two phases or more."""
    known = [(reported, lengths) for reported in cells if (lengths := phases_ms(reported.row))]
    if all(len([ms for ms in lengths.values() if ms]) < 2 for _, lengths in known):
        return None
    title += f": the first {MAX_BARS} of {len(known)} cells" * (len(known) > MAX_BARS)
    known = known[:MAX_BARS]
    figure = sized(8.5, 0.22 * len(known) + 1.5)
    axes = figure.subplots()
    for index, (_, lengths_ms) in enumerate(known):
        total_ms, left = sum(lengths_ms.values()), 0.0
        for phase, length_ms in lengths_ms.items():
            axes.barh(index, 100 * length_ms / total_ms, 0.78, left, color=PHASE_COLOURS[phase])
            left += 100 * length_ms / total_ms
        text = f"{significant(total_ms)} ms"
        axes.annotate(text, (100, index), (3, 0), textcoords="offset points", fontsize=7, va="center")
    axes.set_yticks(range(len(known)), [reported.label for reported, _ in known], fontsize=7)
    axes.set_ylim(len(known) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of a step's wall time")
    tidy(axes)
    axes.grid(visible=False, axis="y")
    shown = [phase for phase in Phase if any(reported.number(f"breakdown_{phase}_ms") for reported, _ in known)]
    handles = [Patch(color=PHASE_COLOURS[phase], label=phase.replace("_", " ")) for phase in shown]
    return finished(figure, title, handles=handles, num_columns=5)
