"""Shows answers in a terminal: the gain of each job compared with its reference, and the cells of one job.

Also makes sentences about all cells together: which numbers are in doubt or missing, and which data were replaced.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import shorten, wrap
from typing import NamedTuple

from rich.text import Text

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.gaps import Gap, Word
from accelbench.answers.jobs import Job, reference_text
from accelbench.answers.serving import best_settings, capacities
from accelbench.answers.time_to_goal import target_answers
from accelbench.answers.words import speed_text
from accelbench.judging.row import remarks_in, warnings_of
from accelbench.judging.warnings import Kind, interval_text
from accelbench.presentation import counted, shortened, significant

MAX_REASONS, REASON_LENGTH = 3, 60
MARKS = {Word.sure: "●", Word.likely: "○", Word.same: "=", Word.cant_tell: "?"}
MEANINGS = {
    Word.sure: "sure: five runs each",
    Word.likely: "likely: one run each",
    Word.same: "equally fast",
    Word.cant_tell: "can't tell",
}
DOUBT = "!"
BAR = "━"
LEAST_BAR, MOST_BAR = 4, 40  # characters
LEAST_NAME = 12
MAX_NAME, MAX_SETTING = 26, 22
MAX_LISTED = 6  # jobs without a bar


class Bar(NamedTuple):
    """A bar of characters: its name, its length in any unit, the mark at its end, and the text on its right."""

    name: str
    length: float
    mark: str
    figures: str


def summary(jobs: Sequence[Job], cells: Sequence[MeasuredCell], width: int) -> Iterator[Text]:
    """Yields lines about all `cells`, also cells without results. `jobs` were computed from these cells."""
    yield from of_jobs(jobs, width)
    speeds = beside_speeds(cells)
    if speeds:
        yield Text()
    for line in [*map(Text, speeds), Text(), *remarks(cells)]:
        for text in wrap(line.plain, width, subsequent_indent="  ", break_on_hyphens=False) or [""]:
            yield Text(text, line.style)


def of_jobs(jobs: Sequence[Job], width: int) -> Iterator[Text]:
    """Yields a line for each job with a faster setting than its reference, sorted by gain.

    Then lists the other jobs that have several settings. If no job has several settings, lists each job with its speed.
    """
    compared = [job for job in jobs if job.gains]
    faster = [job for job in compared if job.best]
    others = [job for job in compared if not job.best]
    if compared:
        today = f"{reference_text(compared)} (same batch)"
        yield Text(f"{len(faster)} of {counted(len(compared), 'job')} run faster than {today}", "bold")
    if faster:
        yield Text()
    yield from _rows(faster, width)
    untold = [job for job in others if job.gain.word == Word.cant_tell]
    kept = [job for job in others if job.gain.word != Word.cant_tell]
    if others or (jobs and not compared):
        yield Text()
    yield from _list("nothing faster", [_beside(job) for job in kept], width)
    yield from _list("can't tell", [job.name for job in untold], width)
    if not compared:
        yield from _list("one setting only", [f"{job.name}: {_rate(job.fastest)}" for job in jobs], width)
    words = {job.gain.word for job in [*faster, *kept]}
    if words:
        legend = "   ".join(f"{MARKS[word]} {meaning}" for word, meaning in MEANINGS.items() if word in words)
        yield Text(f"\n  {legend}", "dim")


def _list(title: str, parts: Sequence[str], width: int) -> Iterator[Text]:
    """Yields the title and the parts as one text, on as many lines as needed."""
    if not parts:
        return
    more = [f"and {counted(len(parts) - MAX_LISTED, 'more job')}"] if len(parts) > MAX_LISTED else []
    text = f"{title}: {', '.join([*parts[:MAX_LISTED], *more])}"
    for line in wrap(text, width - 2, subsequent_indent="  ", break_on_hyphens=False):
        yield Text(f"  {line}", "dim")


def _beside(job: Job) -> str:
    """Returns a job's name, setting, gain and mark (see `MARKS`), such as `rnn train: Keras fp32 0.63x ○`."""
    doubt = f" {DOUBT}" if job.gain.is_doubtful else ""
    return f"{job.name}: {job.text(job.gain.first)} {_times(job.gain)} {MARKS[job.gain.word]}{doubt}"


def _rate(cell: MeasuredCell) -> str:
    return speed_text(cell.cell, cell.speed).replace(" samples/s", "/s")


def _times(gain: Gap) -> str:
    return f"{significant(gain.ratio, 2)}x"


def _rows(jobs: Sequence[Job], width: int) -> Iterator[Text]:
    names = [shortened(job.name, MAX_NAME) for job in jobs]
    settings = [shortened(job.text(job.gain.first), MAX_SETTING) for job in jobs]
    name_width = max(map(len, names), default=0)
    bars = []
    for job, name, setting in zip(jobs, names, settings, strict=True):
        doubt = f" {DOUBT}" if job.gain.is_doubtful else ""
        figures = f"{_times(job.gain):>7}  {_rate(job.gain.first):>9}{doubt}"
        bars.append(
            Bar(f"{name:<{name_width}}  {setting}", math.log(job.gain.ratio), MARKS[job.gain.word], figures)
        )
    yield from _drawn(bars, width)


def of_one(job: Job, width: int, most: int) -> Iterator[Text]:
    """Yields the recommendation for one job, and then a bar for each of its fastest cells (at most `most` bars)."""
    mark = f"{MARKS[job.lead.word]} " if job.lead else ""
    yield Text.assemble((job.what, "bold"), f": {mark}{job.sentence}")
    cells = job.cells
    if len(cells) == 1:
        return
    yield Text()
    rates = [speed_text(cell.cell, cell.speed) for cell in cells[:most]]
    rate_width = max(map(len, rates))
    bars = []
    for cell, rate in zip(cells, rates, strict=False):
        p50_ms = cell.number("latency_p50_ms")
        step = "" if p50_ms is None else f"{significant(p50_ms)} ms"
        doubt = f" {DOUBT}" if warnings_of(cell.row) else ""
        figures = f"{rate:>{rate_width}}  {interval_text(cell.row):<6}  {step}{doubt}"
        bars.append(Bar(job.text(cell), cell.speed or 0.0, "", figures))
    yield from _drawn(bars, width)
    if len(cells) > most:
        yield Text(f"  and {counted(len(cells) - most, 'slower cell')}", "dim")
    yield Text()


def _drawn(bars: Sequence[Bar], width: int) -> Iterator[Text]:
    """Yields a line for each bar. The first bar is the longest."""
    beside = width - 7 - max((len(bar.figures) for bar in bars), default=0)  # left for names and bars
    names = [shortened(bar.name, max(LEAST_NAME, beside - LEAST_BAR)) for bar in bars]
    name_width = max(map(len, names), default=0)
    room = max(LEAST_BAR, min(MOST_BAR, beside - name_width))
    for bar, name in zip(bars, names, strict=True):
        length = max(1, round(room * bar.length / (bars[0].length or 1.0)))
        line = Text(f"  {name:<{name_width}}  ")
        line.append(BAR * length, "green")
        yield line.append(bar.mark.ljust(room - length + 1) + f"  {bar.figures}")


def remarks(cells: Sequence[MeasuredCell]) -> Iterator[Text]:
    """Yields lines about doubts, about stand-in data, and about cells without results."""
    for topic, text in notices(cells).items():
        yield Text(f"- {text}", "dim") if topic == "Missing" else Text(f"{DOUBT} {text}", "yellow")


def notices(cells: Sequence[MeasuredCell]) -> dict[str, str]:
    """Returns topic -> how many cells are in doubt, which data sets were replaced, and how many cells are missing."""
    texts = {}
    ok = [cell for cell in cells if cell.is_ok]
    if num := sum(bool(warnings_of(cell.row)) for cell in ok):
        texts["In doubt"] = f"{num} of {counted(len(ok), 'cell')} in doubt"
    if names := stand_ins(cells):
        texts["Stand-ins"] = f"stand-ins for {', '.join(names)}: only speeds are valid"
    if text := missing(cells):
        texts["Missing"] = text
    return texts


def beside_speeds(cells: Sequence[MeasuredCell]) -> list[str]:
    """Returns a sentence about each workload with other results: requests/s within a limit, and times to a target."""
    served = [f"{capacity.what}: {capacity.sentence}." for capacity in best_settings(capacities(cells))]
    return [*served, *(answer.sentence for answer in target_answers(cells))]


def missing(cells: Sequence[MeasuredCell]) -> str:
    """How many cells have no numbers, and why."""
    reasons = unmeasured(cells)
    if not reasons:
        return ""
    parts = []
    num_others = reasons.total()
    for (outcome, why), num in reasons.most_common(MAX_REASONS):
        parts.append(f"{num:,} {outcome}" + (f" ({why})" if why else ""))
        num_others -= num
    if num_others:
        parts.append(f"{num_others:,} others")
    return f"{reasons.total():,} of {len(cells):,} cells: {', '.join(parts)}."


def unmeasured(cells: Sequence[MeasuredCell]) -> Counter[tuple[str, str]]:
    """Counts the cells without numbers: (outcome, reason) -> number of cells. The reason may be empty."""
    reasons: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        if not cell.is_ok:
            why = shorten((cell.reason or "").partition(" (")[0], REASON_LENGTH, placeholder=" ...")
            reasons[cell.outcome, why] += 1
    return reasons


def tips(cells: Sequence[MeasuredCell]) -> dict[str, list[str]]:
    """Returns a dict: tip, such as `Tip for 3 cells: try allocator=jemalloc` -> labels of the cells that it is for."""
    labels_of: dict[str, list[str]] = {}
    for cell in cells:
        for tip in remarks_in(cell.row, Kind.tip):
            labels_of.setdefault(tip.partition(": ")[0], []).append(cell.label)
    return {
        f"Tip for {counted(len(labels), 'cell')}: {advice}": labels for advice, labels in labels_of.items()
    }


def stand_ins(cells: Sequence[MeasuredCell]) -> dict[str, str]:
    """Returns a dict: data set that was replaced by a stand-in -> a warning that the stand-in was measured."""
    sources: dict[str, str] = {}
    for cell in cells:
        data = cell.record.data if cell.record and cell.measurement else None
        if data is not None and data.stand_in:
            sources.setdefault(data.name, data.source)
    return {
        name: f"NOT {name.upper()}: a stand-in ({source}) was measured. Its accuracies and losses are not "
        f"{name.upper()}'s: do not compare them with published ones. Compare its times only with times that "
        "are for the same number of samples."
        for name, source in sources.items()
    }
