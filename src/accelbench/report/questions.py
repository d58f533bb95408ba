"""What users ask about the measurements: for each question a sentence, a picture and a table."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from accelbench.answers.cells import MeasuredCell, Word
from accelbench.answers.pairs import BATCH, DEVICE, ENGINE, OPTIONS, PRECISION, Axis, Pair, pairs
from accelbench.answers.sentences import Answer
from accelbench.judging.row import phases_ms
from accelbench.presentation import significant
from accelbench.report.pictures.batch_lines import batch_lines
from accelbench.report.pictures.lines import Dot, dots, phases
from accelbench.report.pictures.style import Picture
from accelbench.report.read import Sweep
from accelbench.report.tables import pairs as pair_table
from accelbench.report.tables.table import Table
from accelbench.schema.vocab import Phase
from accelbench.stats.order_statistics import median

SMALLEST = "the smallest batch"
# Phases in which the device waits.
WAITING = (Phase.data_wait, Phase.copy_in, Phase.copy_out, Phase.framework)


@dataclass(frozen=True, kw_only=True)
class QuestionSection:
    """The part of the page on a question; the table has the figures behind the pictures."""

    title: str
    sentence: str
    pictures: list[Picture]
    table: Table | None = None


def questions(sweeps: Sequence[Sweep], answers: Sequence[Answer]) -> list[QuestionSection]:
    """The questions that the measurements answer."""
    cells = [cell for sweep in sweeps for cell in sweep.cells]
    fastest: list[MeasuredCell] = []  # of each engine
    for answer in answers:
        engines: dict[str, MeasuredCell] = {}
        for cell in answer.group.cells:
            engines.setdefault(cell.cell.engine, cell)
        fastest += engines.values()
    found = [
        _gained("Which device?", DEVICE, "the CPU", cells),
        _gained("Which precision?", PRECISION, "fp32", cells),
        _batch(cells, answers),
        _gained("Which engine?", ENGINE, "PyTorch (lightning)", cells),
        _gained("Which options?", OPTIONS, "no options", cells),
        _time(fastest),
        _limit(fastest),
    ]
    return [question for question in found if question is not None]


def _gained(title: str, axis: Axis, base: str, cells: Sequence[MeasuredCell]) -> QuestionSection | None:
    found = pairs(cells, axis)
    if not found:
        return None
    drawn = []
    for gain in found:
        name, text = f"{gain.what}: {gain.value}", f"{significant(gain.gap.ratio)}x, {gain.gap.word}"
        drawn.append(Dot(name=name, value=gain.gap.ratio, text=text, cell=gain.cell.cell))
    figure = dots(drawn, f"{title[:-1]}: times as fast as {base}, all else equal", f"speed over {base}", base)
    return QuestionSection(
        title=title,
        sentence=" ".join(_summaries(found, base)),
        pictures=_pictures(axis.name.partition(" ")[0], f"{title} Speed over {base}", figure),
        table=pair_table.table(f"Speed over {base}", found),
    )


def _summaries(found: Sequence[Pair], base: str) -> Iterator[str]:
    """A sentence for each value of the setting on each device: how it does in the median, and at its extremes."""
    has_devices = len({gain.cell.cell.device for gain in found}) > 1 and base != "the CPU"
    by_value: dict[str, list[Pair]] = {}
    for gain in found:
        on = f" on the {gain.cell.cell.device}" if has_devices else ""
        against = gain.base_value if base == SMALLEST else base
        by_value.setdefault(f"{gain.value}{on}: {{}} times as fast as {against}", []).append(gain)
    for text, each in by_value.items():
        ratios = sorted(gain.gap.ratio for gain in each)
        if len(each) == 1:
            yield f"{text.format(significant(ratios[0]))} ({each[0].what}; {each[0].gap.word})."
            continue
        num_sure = sum(gain.gap.word == Word.sure for gain in each)
        sure = f"; sure in {num_sure}" if num_sure else ""
        spread = f"{significant(ratios[0])} to {significant(ratios[-1])}"
        yield f"{text.format(significant(median(ratios)))} in the median of {len(each)} pairs ({spread}{sure})."


def _batch(cells: Sequence[MeasuredCell], answers: Sequence[Answer]) -> QuestionSection | None:
    question = _gained("Which batch size?", BATCH, SMALLEST, cells)
    if question is None:
        return None
    lines = _pictures("batch", "Speed and latency by batch size", batch_lines(answers))
    return replace(question, pictures=lines or question.pictures)


def _time(fastest: Sequence[MeasuredCell]) -> QuestionSection | None:
    figure = phases(fastest, "Where a step's time goes, in the fastest cell of each model and engine")
    if figure is None:
        return None
    known = [(reported.label, lengths) for reported in fastest if (lengths := phases_ms(reported.row))]
    shares = [(sum(ms.get(phase, 0.0) for phase in WAITING) / sum(ms.values()), label) for label, ms in known]
    middle = significant(100 * median([share for share, _ in shares]), 2)
    largest, label = max(shares)
    sentence = (
        f"Waiting for data, copying and the framework take {middle} % of a step in the median; "
        f"the most, {significant(100 * largest, 2)} %, in {label}. Phases are timed in steps of their own, which may "
        "take more or less time than those of the speed."
    )
    pictures = _pictures("time", "Phases of a step", figure)
    return QuestionSection(title="Where does the time go?", sentence=sentence, pictures=pictures)


def _limit(fastest: Sequence[MeasuredCell]) -> QuestionSection | None:
    every = [(cell, 100 * mfu) for cell in fastest if (mfu := cell.number("mfu"))]
    known = [(cell, percent) for cell, percent in every if percent <= 100]
    if not known:
        return None
    counts = Counter(str(cell.row["bound"] or "unknown") for cell, _ in known)
    bounds = ", ".join(f"{bound} in {num}" for bound, num in counts.most_common())
    shares = " to ".join(dict.fromkeys(significant(end(percent for _, percent in known), 2) for end in (min, max)))
    sentence = (
        f"The fastest cells reach {shares} % of the operations per second that their device reached in the probe. "
        f"What bounds them: {bounds}."
    )
    if beyond := ", ".join(cell.label for cell, percent in every if percent > 100):
        sentence += f" Not drawn, since it ran faster than the probe: {beyond}."
    drawn = [
        Dot(name=cell.label, value=percent, text=f"{significant(percent, 2)} %, {bound}", cell=cell.cell)
        for cell, percent in known
        for bound in [cell.row["bound"] or "bound unknown"]
    ]
    title = "Share of the device's peak rate, and what bounds it, in the fastest cell of each model and engine"
    pictures = _pictures("limit", "Share of the peak rate", dots(drawn, title, "% of the peak rate that was probed"))
    return QuestionSection(title="How near to the limit?", sentence=sentence, pictures=pictures)


def _pictures(name: str, what: str, figure: Figure | None) -> list[Picture]:
    alt = f"{what}; the table of all cells holds its values"
    return [] if figure is None else [Picture(path=f"plots/question_{name}.png", alt=alt, figure=figure)]
