"""What users ask about the measurements: for each question a sentence, the lines of a chart, and a table."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from accelbench.answers.arrivals import Run, Setting, TargetAnswer, target_answers
from accelbench.answers.cells import MeasuredCell, Word
from accelbench.answers.pairs import BATCH, DEVICE, ENGINE, OPTIONS, PRECISION, Axis, Pair, pairs
from accelbench.answers.sentences import Answer
from accelbench.answers.serving import Capacity, capacities
from accelbench.judging.row import phases_ms
from accelbench.presentation import and_more, significant
from accelbench.report.read import Sweep
from accelbench.report.tables import pairs as pair_table
from accelbench.report.tables.all_cells import name_on_page
from accelbench.report.tables.table import Column, Entry, Table, number, percent, tabulate_known
from accelbench.schema.record import Value
from accelbench.schema.serialize import grouped
from accelbench.schema.vocab import Mode, Phase
from accelbench.stats.order_statistics import median

MAX_VALUES = 4  # of a setting, that the sentence names
# Phases in which the device waits.
WAITING = (Phase.data_wait, Phase.copy_in, Phase.copy_out, Phase.framework)
DRAWN = ("offered_per_s", "verdict", "miss_share", *(f"request_p{each}_ms" for each in (50, 90, 99, 999)))  # of a probe
ONE_COLOUR = 0.95  # of a step: a phase that takes more of it leaves nothing to see of the others


class Line(NamedTuple):
    """A line of a question's chart, about one cell."""

    cell: str  # its name among the page's cells
    name: str
    text: str  # beside the value
    value: float = 0.0  # a ratio or percent; 0 where the chart shows columns of the cell: phases, or latencies
    bounds: tuple[float, float] | None = None
    probe: Mapping[str, Value] | None = None  # the columns that are drawn of one of several processes of the cell


@dataclass(frozen=True, kw_only=True)
class QuestionSection:
    """The part of the page on a question; the table has the figures behind the lines."""

    title: str
    sentence: str
    kind: Literal["times", "percent", "phases", "requests", "arrivals", "spans"]
    lines: list[Line]  # the page draws the first ones of several
    table: Table | None = None


CAPACITY_NOTE = (
    "From: the highest rate with a sure pass that another one, there or above, confirms (likely: none did); to: the "
    "lowest with a sure fail. The other figures are of the lower rate. Latency counts from when a request was due."
)
CAPACITY_COLUMNS: list[Column[Capacity]] = [
    Column("setting", lambda capacity: capacity.setting),
    Column("requests/s: from", lambda capacity: capacity.low, number),
    Column("to", lambda capacity: capacity.high, number),
    *(Column(f"p{percentile} (ms)", f"request_p{percentile}_ms", number) for percentile in (50, 90, 99)),
    Column("mean batch", "mean_batch", number),
    Column("busy (%)", "busy_share", percent),
    Column("J/request", "energy_j_per_request", number),
    Column("cost of a million", "cost_per_million_requests", number),
    Column("how sure", lambda capacity: capacity.how_sure),
]
TOKEN_NOTE = (
    "Tokens/s in all: with the prefill, of all processes; the other figures are of the typical one. Decoding: the "
    "tokens of all sequences per second after the first ones, with a 95 % interval over generations. Percentiles: of "
    "decode steps, each a token of every sequence. The sampling is greedy, and no sequence ends early."
)
TOKEN_COLUMNS: list[Column[MeasuredCell]] = [
    Column("cell", lambda cell: cell.label),
    Column("tokens/s in all", "tokens_per_s", number),
    Column("decode tokens/s", "decode_tokens_per_s", number),
    *(Column(word, f"decode_tokens_per_s_{end}", number) for word, end in (("from", "low"), ("to", "high"))),
    Column("first token (ms)", "ttft_ms", number),
    *(Column(f"a token, p{percent} (ms)", f"tpot_p{percent}_ms", number) for percent in (50, 90, 99)),
    Column("key-value cache (MB)", "kv_cache_mb", number),
]
TARGET_NOTE = (
    "Seconds: the median to the end of the evaluation that reached the target, with its exact 95 % interval; not "
    "before: the evaluation before that. A seed that did not arrive counts as longer than all. Of all: the seeds that "
    "would arrive. Expected: another seed is begun wherever one does not. MLPerf counts from the data on, AlgoPerf the "
    "training alone, airbench that without compiling, and one evaluation."
)
TARGET_COLUMNS: list[Column[Setting]] = [
    Column("setting", lambda setting: setting.name),
    Column("arrived", lambda setting: setting.arrived_text),
    Column("of all (%)", lambda setting: "{:.0f} to {:.0f}".format(*(100 * end for end in setting.share))),
    Column("seconds", lambda setting: Entry(setting.median_text, setting.number("target_s"))),
    Column("95 % interval", lambda setting: setting.interval_text),
    Column("not before (s)", "target_low_s", number),
    Column("expected (s)", lambda setting: setting.expected_s, number),
    Column("epochs", "target_epochs", number),
    Column("MLPerf (s)", "target_mlperf_s", number),
    Column("AlgoPerf (s)", "target_train_s", number),
    Column("airbench (s)", "target_airbench_s", number),
    Column("compile (s)", "target_compile_s", number),
    Column("J", "target_j", number),
    Column("cost", "target_cost", number),
    Column("on the test set", "target_tested", number),
    Column("epochs against fp32", lambda setting: setting.refused or setting.guard),
]


def questions(sweeps: Sequence[Sweep], answers: Sequence[Answer]) -> list[QuestionSection]:
    """The questions that the measurements answer."""
    cells = [cell for sweep in sweeps for cell in sweep.cells]
    by_engine = (grouped(answer.group.cells, lambda cell: cell.cell.engine).values() for answer in answers)
    fastest = [of_engine[0] for engines in by_engine for of_engine in engines]
    found = [
        _gained("Which device?", DEVICE, "the CPU", cells),
        _gained("Which precision?", PRECISION, "fp32", cells),
        _gained("Which batch size?", BATCH, "the smallest batch", cells),
        _gained("Which engine?", ENGINE, "PyTorch", cells),
        _gained("Which options?", OPTIONS, "no options", cells),
        _time(fastest),
        _limit(fastest),
    ]
    return [*_requests(cells), *_arrivals(cells), *_generation(answers), *filter(None, found)]


def _requests(cells: Sequence[MeasuredCell]) -> Iterator[QuestionSection]:
    """A section for each workload that served requests, of which the page's script draws a line for each setting."""
    by_workload = grouped(capacities(cells), lambda each: each.what)
    for what, found in by_workload.items():
        yield QuestionSection(
            title="How many requests per second?" + (f" {what}" if len(by_workload) > 1 else ""),
            sentence=f"{found[0].sentence}.",
            kind="requests",
            lines=[
                Line(name_on_page(each.cell), of.setting, "", probe={name: each.process.row[name] for name in DRAWN})
                for of in found
                for each in of.probes
            ],
            table=tabulate_known("Each setting, at the lower of its rates", CAPACITY_COLUMNS, found, [CAPACITY_NOTE]),
        )


def _arrivals(cells: Sequence[MeasuredCell]) -> Iterator[QuestionSection]:
    """A section for each workload that was trained to a target, with a line for each run, and one on its spans."""
    found = target_answers(cells)
    for each in found:
        runs = [(of, run) for of in each.settings for run in of.runs]
        middle = [(of, spans) for of in each.settings if sum((spans := of.middle.spans_s).values())]
        about = f" {each.what}" if len(found) > 1 else ""
        yield QuestionSection(
            title=f"How long to the target?{about}",
            sentence=each.sentence,
            kind="arrivals",
            lines=[
                Line(name_on_page(of.cell), of.name, str(run.process.cell.seed), probe=_ends(run)) for of, run in runs
            ],
            table=_target_table(each),
        )
        if middle:
            yield QuestionSection(
                title=f"Where does the time to the target go?{about}",
                sentence=f"{'; '.join(_longest(of.name, spans) for of, spans in middle)}. "
                "Of each setting the seed in the middle, up to the evaluation that reached the target.",
                kind="spans",
                lines=[
                    Line(name_on_page(of.cell), of.name, f"{significant(sum(spans.values()))} s", probe=dict(spans))
                    for of, spans in middle
                ],
            )


def _longest(name: str, spans: Mapping[str, float]) -> str:
    """Such as `cpu fp32 b32: train takes 61 % of 0.659 s`."""
    longest, total = max(spans, key=lambda span: spans[span]), sum(spans.values())
    return f"{name}: {longest} takes {significant(100 * spans[longest] / total, 2)} % of {significant(total)} s"


def _target_table(answer: TargetAnswer) -> Table | None:
    """A line for each setting, the fastest first, with how it compares with that one."""
    leads = {lead.second.name: f"{lead.ratio_text} ({lead.how_sure}); p {lead.found.p:.2g}" for lead in answer.leads}
    against = Column[Setting]("the fastest is", lambda setting: leads.get(setting.name))
    columns = [*TARGET_COLUMNS[:5], against, *TARGET_COLUMNS[5:]]
    return tabulate_known("Each setting, with its clocks", columns, answer.settings, [TARGET_NOTE])


def _generation(answers: Sequence[Answer]) -> Iterator[QuestionSection]:
    if found := [each for each in answers if each.fastest.cell.mode == Mode.generate]:
        cells = [cell for each in found for cell in each.group.cells]
        yield QuestionSection(
            title="How many tokens per second?",
            sentence=" ".join(f"{each.title}: {each.sentence}" for each in found),
            kind="times",
            lines=[],
            table=tabulate_known("Each cell that generates", TOKEN_COLUMNS, cells, [TOKEN_NOTE]),
        )


def _ends(run: Run) -> dict[str, Value]:
    """When it arrived, or for how long it was watched; None if neither."""
    ends = {"seconds": run.seconds, "watched_s": run.watched_s}
    return {name: value if math.isfinite(value) else None for name, value in ends.items()}


def _gained(title: str, axis: Axis, base: str, cells: Sequence[MeasuredCell]) -> QuestionSection | None:
    found = pairs(cells, axis)
    if not found:
        return None
    lines = [
        Line(
            cell=name_on_page(gain.cell),
            name=f"{gain.value}: {gain.what}",
            text=f"{significant(gain.gap.ratio)}x, {gain.gap.word}",
            value=gain.gap.ratio,
            bounds=gain.bounds,
        )
        for gain in sorted(found, key=lambda gain: -max(gain.gap.ratio, 1 / gain.gap.ratio))
    ]
    return QuestionSection(
        title=title,
        sentence="; ".join(_summaries(found, axis, base)) + ".",
        kind="times",
        lines=lines,
        table=pair_table.table(f"Speed over {base}", found),
    )


def _summaries(found: Sequence[Pair], axis: Axis, base: str) -> Iterator[str]:
    """How each value of the setting does on each device: in the median, and at its extremes; of batches the largest."""
    has_devices = len({gain.cell.cell.device for gain in found}) > 1 and axis is not DEVICE
    largest = {gain.base.measured_key: gain for gain in sorted(found, key=lambda gain: gain.cell.cell.batch_size)}

    def value_of(gain: Pair) -> str:
        on = f" on the {gain.cell.cell.device}" if has_devices else ""
        return ("Largest batch" if axis is BATCH else gain.value) + on

    by_value = grouped(largest.values() if axis is BATCH else found, value_of)
    over = f" as fast as {base}"
    for value, each in list(by_value.items())[:MAX_VALUES]:
        ratios = sorted(gain.gap.ratio for gain in each)
        text = f"{value}: {significant(median(ratios))} times{over}"
        over = ""
        if len(each) == 1:
            yield f"{text} ({each[0].what}; {each[0].gap.word})"
            continue
        num_sure = sum(gain.gap.word == Word.sure for gain in each)
        sure = f"; sure in {num_sure}" if num_sure else ""
        ends = f"{significant(ratios[0])} to {significant(ratios[-1])}"
        yield f"{text} in the median of {len(each)} pairs ({ends}{sure})"
    if len(by_value) > MAX_VALUES:
        yield and_more(len(by_value) - MAX_VALUES, "value")


def _time(fastest: Sequence[MeasuredCell]) -> QuestionSection | None:
    known = [(cell, lengths) for cell in fastest if (lengths := phases_ms(cell.row))]
    if all(len([ms for ms in lengths.values() if ms]) < 2 for _, lengths in known):
        return None
    waits = [(sum(ms.get(phase, 0.0) for phase in WAITING) / sum(ms.values()), cell.label) for cell, ms in known]
    middle = significant(100 * median([share for share, _ in waits]), 2)
    largest, label = max(waits)
    sentence = (
        f"Waiting for data, copying and the framework take {middle} % of a step in the median; "
        f"the most, {significant(100 * largest, 2)} %, in {label}."
    )
    mixed = [(max(ms.values()) / sum(ms.values()), cell, sum(ms.values())) for cell, ms in known]
    lines = [
        Line(name_on_page(cell), cell.label, f"{significant(total_ms)} ms")
        for share, cell, total_ms in sorted(mixed, key=lambda each: each[0])
        if share < ONE_COLOUR
    ]
    return QuestionSection(title="Where does the time go?", sentence=sentence, kind="phases", lines=lines)


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
    lines = [
        Line(name_on_page(cell), cell.label, ", ".join(filter(None, [f"{significant(percent, 2)} %", bound])), percent)
        for cell, percent in sorted(known, key=lambda each: -each[1])
        for bound in [str(cell.row["bound"] or "")]
    ]
    return QuestionSection(title="How near to the limit?", sentence=sentence, kind="percent", lines=lines)
