"""What users ask about the measurements: for each question a sentence, a picture and a table."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from accelbench.answers.best import CRITERIA
from accelbench.answers.cells import MeasuredCell
from accelbench.answers.gaps import Word
from accelbench.answers.pairs import BATCH, DEVICE, ENGINE, OPTIONS, PRECISION, Pair, pairs
from accelbench.answers.ranking import Answer
from accelbench.answers.words import model_text
from accelbench.judging.row import phases_ms
from accelbench.presentation import counted, significant
from accelbench.report.picture import Picture
from accelbench.report.pictures import phases
from accelbench.report.pictures.batch_lines import batch_lines
from accelbench.report.pictures.dots import MAX_DOTS, Dot, dots
from accelbench.report.pictures.heat_map import heat_map
from accelbench.report.pictures.trade_off import trade_off as trade_off_picture
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables import pairs as pair_table
from accelbench.report.tables.table import Table
from accelbench.report.tables.trade_off import table as trade_off_table
from accelbench.report.tables.trade_off import trade_off
from accelbench.schema.vocab import Phase
from accelbench.stats.order_statistics import median

SMALLEST = "the smallest batch"
# Phases in which the device waits.
WAITING = (Phase.data_wait, Phase.copy_in, Phase.copy_out, Phase.framework)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with its answer.

    Attributes:
        table: the figures behind the pictures; None without.
    """

    title: str
    sentence: str
    pictures: list[Picture]
    table: Table | None = None


def questions(sweeps: Sequence[Sweep], answers: Sequence[Answer]) -> list[Question]:
    """The questions that the measurements answer."""
    cells = [cell for sweep in sweeps for cell in sweep.cells]
    fastest = [reported for answer in answers for reported in _of_each_engine(answer)]
    found = [
        _gained("Which device?", "device", "the CPU", pairs(cells, DEVICE)),
        _precision(cells, answers),
        _batch(cells, answers),
        _trade_off(answers),
        _gained("Which engine?", "engine", "PyTorch (lightning)", pairs(cells, ENGINE)),
        _gained("Which options?", "options", "no options", pairs(cells, OPTIONS)),
        _time(fastest),
        _limit(fastest),
        _cost(answers),
        _sureness(answers),
    ]
    return [question for question in found if question is not None]


def _of_each_engine(answer: Answer) -> list[ReportedCell]:
    """The fastest cell of each engine."""
    found: dict[str, ReportedCell] = {}
    for reported in answer.group.cells:
        found.setdefault(reported.cell.engine, reported)
    return list(found.values())


def _gained(title: str, name: str, base: str, found: Sequence[Pair]) -> Question | None:
    """How much each value of a setting gains over the base value; None without a pair."""
    return _answered(title, base, found, _gains_drawn(title, name, base, found)) if found else None


def _answered(title: str, base: str, found: Sequence[Pair], pictures: list[Picture]) -> Question:
    return Question(
        title=title,
        sentence=" ".join(_summaries(found, base)),
        pictures=pictures,
        table=pair_table.table(f"Speed over {base}", found),
    )


def _gains_drawn(title: str, name: str, base: str, found: Sequence[Pair]) -> list[Picture]:
    drawn = [
        Dot(
            name=f"{gain.what}: {gain.value}",
            value=gain.gap.ratio,
            text=f"{significant(gain.gap.ratio)}x, {gain.gap.word}",
            cell=gain.cell.cell,
        )
        for gain in found
    ]
    axis = f"speed over {base}"
    figure = dots(drawn, f"{title[:-1]}: times as fast as {base}, all else equal", axis, base)
    return _pictures((name, f"{title} Speed over {base}", figure))


def _precision(cells: Sequence[MeasuredCell], answers: Sequence[Answer]) -> Question | None:
    """How much each precision gains over fp32, and every precision at every batch size."""
    question = _gained("Which precision?", "precision", "fp32", pairs(cells, PRECISION))
    if question is None:
        return None
    map_of_all = _pictures(("precision_by_batch", "Speed by precision and batch size", heat_map(answers)))
    alone: dict[str, list[str]] = {}
    for answer in answers:
        precisions = {reported.cell.precision.value for reported in answer.group.cells}
        if len(precisions) == 1:
            alone.setdefault(precisions.pop(), []).append(answer.what)
    sentence = question.sentence + "".join(
        f" In {precision} alone: {'; '.join(dict.fromkeys(models))}." for precision, models in alone.items()
    )
    return replace(question, sentence=sentence, pictures=question.pictures + map_of_all)


def _batch(cells: Sequence[MeasuredCell], answers: Sequence[Answer]) -> Question | None:
    """How speed and latency grow with the batch size."""
    title, found = "Which batch size?", pairs(cells, BATCH)
    if not found:
        return None
    lines = _pictures(("batch", "Speed and latency by batch size", batch_lines(answers)))
    return _answered(title, SMALLEST, found, lines or _gains_drawn(title, "batch", SMALLEST, found))


def _trade_off(answers: Sequence[Answer]) -> Question | None:
    """What speed costs in latency."""
    known = [(answer, found) for answer in answers if (found := trade_off(answer.group))]
    if not known:
        return None
    num_both = sum(found.fastest is found.soonest for _, found in known)
    networks = f"{len(known)} network{'s' * (len(known) != 1)}"
    sentence = f"In {num_both} of {networks} one setting has both the most samples/s and the shortest step."
    answer, widest = max(known, key=lambda pair: pair[1].width)
    if widest.fastest is not widest.soonest:
        ends = [
            f"{significant(each.number('samples_per_s'))} samples/s in steps of "
            f"{significant(each.number('latency_p50_ms'))} ms "
            f"({widest.group.setting(each)}, batch {each.cell.batch_size})"
            for each in (widest.fastest, widest.soonest)
        ]
        sentence += f" The choice is widest for {model_text(answer.fastest)}: {ends[0]}, or {ends[1]}."
    figure = trade_off_picture([(answer.title, found) for answer, found in known])
    return Question(
        title="Speed or latency?",
        sentence=sentence,
        pictures=_pictures(("latency", "Speed against latency", figure)),
        table=trade_off_table([found for _, found in known]),
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


def _time(fastest: Sequence[ReportedCell]) -> Question | None:
    """Where a step's time goes in the fastest cells."""
    figure = phases.phases(fastest, "Where a step's time goes, in the fastest cell of each model and engine", "")
    known = [(reported.label, lengths) for reported in fastest if (lengths := phases_ms(reported.row))]
    if figure is None or not known:
        return None
    shares = [(sum(ms.get(phase, 0.0) for phase in WAITING) / sum(ms.values()), label) for label, ms in known]
    middle = significant(100 * median([share for share, _ in shares]), 2)
    largest, label = max(shares)
    sentence = (
        f"Waiting for data, copying and the framework take {middle} % of a step in the median; "
        f"the most, {significant(100 * largest, 2)} %, in {label}. Phases are timed in steps of their own, which may "
        "take more or less time than those of the speed."
    )
    if without := len(fastest) - len(known):
        sentence += f" {counted(without, 'cell')} without phases {'is' if without == 1 else 'are'} left out."
    return Question(
        title="Where does the time go?", sentence=sentence, pictures=_pictures(("time", "Phases of a step", figure))
    )


def _limit(fastest: Sequence[ReportedCell]) -> Question | None:
    """How near the fastest cells come to the peak rate of their device."""
    every = [(reported, mfu) for reported in fastest if (mfu := reported.number("mfu"))]
    known = [(reported, mfu) for reported, mfu in every if mfu <= 1]
    beyond = [reported.label for reported, mfu in every if mfu > 1]
    if not known:
        return None
    drawn = [
        Dot(
            name=reported.label,
            value=100 * mfu,
            text=f"{significant(100 * mfu, 2)} %" + (f", bound by {bound}" if (bound := reported.row["bound"]) else ""),
            cell=reported.cell,
        )
        for reported, mfu in known
    ]
    bounds = Counter(str(reported.row["bound"]) for reported, _ in known if reported.row["bound"])
    shares = sorted(100 * mfu for _, mfu in known)
    counts = [f"{bound} in {num}" for bound, num in bounds.most_common()]
    if unknown := len(known) - bounds.total():
        counts.append(f"unknown in {unknown}, such as where a compiler fuses operators")
    sentence = (
        f"The fastest cells reach {_range(shares, 2)} % of the operations per "
        f"second that their device reached in the probe. What bounds them: {', '.join(counts)}."
        + f" The picture shows the {MAX_DOTS} highest." * (len(known) > MAX_DOTS)
        + f" Not drawn, since it ran faster than the probe: {', '.join(beyond)}." * bool(beyond)
    )
    title = "Share of the device's peak rate, in the fastest cell of each model and engine"
    figure = dots(drawn, title, "% of the peak rate that was probed")
    return Question(
        title="How near to the limit?",
        sentence=sentence,
        pictures=_pictures(("limit", "Share of the peak rate", figure)),
    )


def _cost(answers: Sequence[Answer]) -> Question | None:
    """What a million samples cost with the cheapest cell of each model, where prices are known."""
    known = []
    for answer in answers:
        costs = [(cost, each) for each in answer.group.cells if (cost := each.number(CRITERIA["money"][0]))]
        known += [min(costs, key=lambda pair: pair[0])] if costs else []
    if not known:
        return None
    drawn = [
        Dot(name=reported.label, value=cost, text=significant(cost), cell=reported.cell) for cost, reported in known
    ]
    title = "Cost of a million samples, with the cheapest cell of each model"
    return Question(
        title="What does it cost?",
        sentence=f"A million samples cost {_range(sorted(cost for cost, _ in known))} at the prices in params.yaml.",
        pictures=_pictures(("cost", title, dots(drawn, title, "cost"))),
    )


def _range(values: Sequence[float], digits: int = 3) -> str:
    """The ends of sorted values, such as `3 to 5`; one if they are equal."""
    return " to ".join(dict.fromkeys(significant(value, digits) for value in (values[0], values[-1])))


def _sureness(answers: Sequence[Answer]) -> Question | None:
    """How many of the answers are sure, and what would make the others so."""
    counts = Counter(answer.lead.word for answer in answers if answer.lead)
    if not counts:
        return None
    parts = [f"{counts[word]} {word}" for word in Word if counts[word]]
    total = sum(counts.values())
    sentence = f"Which setting is fastest: of {total} answer{'s' * (total != 1)}, {', '.join(parts)}."
    commands = [answer.command for answer in answers if answer.command]
    if commands:
        sentence += (
            " To settle one that is not, measure both settings five more times, interleaved: its box has the command."
        )
    return Question(title="How sure is it?", sentence=sentence, pictures=[])


def _pictures(*drawn: tuple[str, str, Figure | None]) -> list[Picture]:
    """The pictures that there are, each of its name, what it shows, and the figure."""
    return [
        Picture(path=f"plots/question_{name}.png", alt=f"{alt}; the table of all cells holds its values", figure=figure)
        for name, alt, figure in drawn
        if figure is not None
    ]
