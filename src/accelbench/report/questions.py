"""Answers users' questions about the measurements. An answer has a sentence, the lines of a chart, and a table."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.gaps import AXES, BATCH, DEVICE, Axis, Gap, Pair, pairs, summary
from accelbench.answers.jobs import Job
from accelbench.answers.serving import Capacity, capacities
from accelbench.answers.time_to_goal import Run, Setting, TargetAnswer, target_answers
from accelbench.judging.row import phases_ms
from accelbench.presentation import and_more, significant
from accelbench.report.overview import name_on_page
from accelbench.report.table import Column, Entry, Table, number, percent, tabulate_known
from accelbench.schema.cell import Phase
from accelbench.schema.record import Value
from accelbench.schema.serialize import grouped
from accelbench.stats.order_statistics import median

MAX_VALUES = 4  # of a setting that the sentence names, at most
# Phases in which the device waits.
WAITING = (Phase.data_wait, Phase.copy_in, Phase.copy_out, Phase.framework)
# Drawn columns of a probe.
_DRAWN = """
offered_per_s verdict miss_share limit_ms limit_percentile request_p50_ms request_p90_ms request_p99_ms request_p999_ms
"""
DRAWN = _DRAWN.split()


class Line(NamedTuple):
    """A line of a question's chart, about one cell."""

    cell: str  # the cell's name in the page's data
    name: str
    text: str  # beside the value
    value: float = 0.0  # a ratio or percent; 0 if the line has `probe`
    bounds: tuple[float, float] | None = None
    # the parts of a bar, in percent, or the drawn columns of a process, if the line is about a single process
    probe: Mapping[str, Value] | None = None


@dataclass(frozen=True, kw_only=True)
class QuestionSection:
    """The page's section on one question, with the lines of a chart or with a table."""

    name: str  # such as `batch`; the sections of several workloads share it
    title: str
    sentence: str
    kind: Literal["times", "percent", "phases", "requests", "arrivals"]
    lines: list[Line]  # the page draws only the first lines of many
    unit: str = ""  # label of the axis of a chart with marks or bars
    gaps: Sequence[Gap] = ()  # the gaps of the lines, if `kind` is `times`
    table: Table | None = None


CAPACITY_NOTE = (
    'The columns "from" and "to" have the ends of the 95 % interval of the highest rate within the limit. The interval '
    "is computed from all probes (a probe is a process at one rate). If the probes give no interval, these columns "
    "have a rate that surely keeps the limit, and a rate that surely does not. The other numbers are from the probe "
    'whose rate is nearest to "from". The latency of a request begins when the request was due.'
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
TARGET_NOTE = (
    'The column "time" has the median time until the end of the evaluation that reached the target. Its 95 % '
    'interval is exact. The column "not before" has the time until the end of the last evaluation that did not reach '
    "the target. A seed that missed the target is ranked as slower than all seeds that reached it. The column "
    '"training" has the time of the training steps, without evaluations.'
)
TARGET_COLUMNS: list[Column[Setting]] = [
    Column("setting", lambda setting: setting.name),
    Column("arrived", lambda setting: setting.arrived_text),
    Column("time", lambda setting: Entry(setting.median_text, setting.median_s)),
    Column("95 % interval", lambda setting: setting.interval_text),
    Column("not before (s)", "target_low_s", number),
    Column("epochs", "target_epochs", number),
    Column("training (s)", "target_train_s", number),
    Column("compile (s)", "target_compile_s", number),
    Column("J", "target_j", number),
    Column("cost", "target_cost", number),
    Column("on the test set", "target_tested", number),
    Column("does not count", lambda setting: setting.refused),
]


def questions(cells: Sequence[MeasuredCell], jobs: Sequence[Job]) -> list[QuestionSection]:
    """Makes a section for each question that `cells` can answer. `jobs` were computed from these cells."""
    by_engine = (grouped(job.cells, lambda cell: cell.cell.engine).values() for job in jobs)
    fastest = [of_engine[0] for engines in by_engine for of_engine in engines]
    found = [*(_gained(axis, cells) for axis in AXES), _time(fastest), _limit(fastest)]
    return [*_requests(cells), *_arrivals(cells), *filter(None, found)]


def _requests(cells: Sequence[MeasuredCell]) -> Iterator[QuestionSection]:
    """Yields a section for each workload that served requests. The page's script draws one curve per setting."""
    by_workload = grouped(capacities(cells), lambda capacity: capacity.what)
    for what, settings in by_workload.items():
        lines = []
        for setting in settings:
            for probe in setting.probes:
                drawn = {name: probe.process.row[name] for name in DRAWN}
                lines.append(Line(name_on_page(probe.cell), setting.setting, "", probe=drawn))
        yield QuestionSection(
            name="requests",
            title="How many requests per second?" + (f" {what}" if len(by_workload) > 1 else ""),
            sentence=f"{settings[0].sentence}.",
            kind="requests",
            lines=lines,
            table=tabulate_known(
                "Each setting, near its highest rate", CAPACITY_COLUMNS, settings, [CAPACITY_NOTE]
            ),
        )


def _arrivals(cells: Sequence[MeasuredCell]) -> Iterator[QuestionSection]:
    """Yields a section with a line for each run, for each workload that was trained to a target."""
    answers = target_answers(cells)
    for answer in answers:
        lines = []
        for setting in answer.settings:
            name = name_on_page(setting.cell)
            lines += [
                Line(name, setting.name, str(run.process.cell.seed), probe=_ends(run)) for run in setting.runs
            ]
        yield QuestionSection(
            name="target",
            title="How long to the target?" + (f" {answer.what}" if len(answers) > 1 else ""),
            sentence=answer.sentence,
            kind="arrivals",
            lines=lines,
            table=_target_table(answer),
        )


def _target_table(answer: TargetAnswer) -> Table | None:
    """Makes a row for each setting, the fastest first. A row compares its setting with the fastest setting."""
    leads = {lead.second.name: lead.text for lead in answer.leads}
    against = Column[Setting]("the fastest is", lambda setting: leads.get(setting.name))
    columns = [*TARGET_COLUMNS[:4], against, *TARGET_COLUMNS[4:]]
    return tabulate_known("Each setting, with its clocks", columns, answer.settings, [TARGET_NOTE])


def _ends(run: Run) -> dict[str, Value]:
    """Returns when a run reached the target, or how long it ran without reaching it. Unknown values are None."""
    ends = {"seconds": run.seconds, "watched_s": run.watched_s}
    return {name: value if math.isfinite(value) else None for name, value in ends.items()}


def _gained(axis: Axis, cells: Sequence[MeasuredCell]) -> QuestionSection | None:
    found = pairs(cells, axis)
    if not found:
        return None
    lines = []
    ordered = sorted(found, key=lambda gain: -max(gain.gap.ratio, 1 / gain.gap.ratio))
    for gain in ordered:
        text = f"{significant(gain.gap.ratio)}x, {gain.gap.word}"
        name = f"{gain.value}: {gain.what}"
        lines.append(Line(name_on_page(gain.cell), name, text, gain.gap.ratio, gain.gap.bounds))
    sentence = "; ".join(_summaries(found, axis)) + "."
    return QuestionSection(
        name=axis.name,
        title=axis.question,
        sentence=sentence,
        kind="times",
        unit=f"speed over {axis.base_text}",
        lines=lines,
        gaps=[gain.gap for gain in ordered],
    )


def _summaries(found: Sequence[Pair], axis: Axis) -> Iterator[str]:
    """Yields a sentence on the gains of each value of a setting on each device.

    If the setting is the batch size, the smallest batch of a job is compared only with the largest.
    """
    has_devices = len({gain.cell.cell.device for gain in found}) > 1 and axis is not DEVICE
    largest = {
        gain.base.measured_key: gain for gain in sorted(found, key=lambda gain: gain.cell.cell.batch_size)
    }

    def value_of(gain: Pair) -> str:
        on = f" on the {gain.cell.cell.device}" if has_devices else ""
        return ("the largest batch" if axis is BATCH else gain.value) + on

    by_value = grouped(largest.values() if axis is BATCH else found, value_of)
    for value, of_value in list(by_value.items())[:MAX_VALUES]:
        yield summary(of_value, value, axis.base_text)
    if len(by_value) > MAX_VALUES:
        yield and_more(len(by_value) - MAX_VALUES, "value")


def _time(fastest: Sequence[MeasuredCell]) -> QuestionSection | None:
    ranked, waits = [], []
    for cell in fastest:
        lengths_ms = phases_ms(cell.row)
        total_ms = sum(lengths_ms.values())
        if max(lengths_ms.values(), default=0.0) < total_ms:  # at least two phases
            percents = {phase.value: 100 * length / total_ms for phase, length in lengths_ms.items()}
            line = Line(name_on_page(cell), cell.label, f"{significant(total_ms)} ms", probe=percents)
            ranked.append((max(percents.values()), line))
            waits.append(sum(percents.get(phase.value, 0.0) for phase in WAITING))
    if not ranked:
        return None
    share = significant(median(waits), 2)
    return QuestionSection(
        name="time",
        title="Where does the time go?",
        sentence=f"Waiting for data, copying and the framework take {share} % of a step (median of the cells).",
        kind="phases",
        unit="percent of a step",
        lines=[line for _, line in sorted(ranked)],
    )


def _limit(fastest: Sequence[MeasuredCell]) -> QuestionSection | None:
    lines = []
    for cell in fastest:
        if share := cell.number("mfu"):
            bound = cell.row["bound"]
            text = f"{significant(100 * share, 2)} %" + (f", {bound}" if bound else "")
            lines.append(Line(name_on_page(cell), cell.label, text, 100 * share))
    if not lines:
        return None
    lines.sort(key=lambda line: -line.value)
    ends = dict.fromkeys(significant(line.value, 2) for line in (lines[-1], lines[0]))
    return QuestionSection(
        name="limit",
        title="How near to the limit?",
        sentence=f"The fastest cells reach {' to '.join(ends)} % of the operations per second of their device's probe.",
        kind="percent",
        unit="percent of the device's peak operations per second",
        lines=lines,
    )
