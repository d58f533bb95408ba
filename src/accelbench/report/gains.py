"""What a terminal draws of answers: the gain of each job over what its user runs today, and the cells of one job."""

import math
from collections.abc import Iterator, Sequence

from rich.text import Text

from accelbench.answers.cells import Gap, MeasuredCell, Word
from accelbench.answers.headline import beside_speeds, missing
from accelbench.answers.headline import stand_ins as stand_ins_of
from accelbench.answers.sentences import Answer
from accelbench.answers.words import speed_text
from accelbench.judging.row import warnings_of
from accelbench.judging.warnings import relative_half_width
from accelbench.presentation import counted, shortened, significant

MARKS = {Word.sure: "●", Word.likely: "○", Word.same: "=", Word.cant_tell: "?"}
MEANINGS = {
    Word.sure: "sure: five runs of each",
    Word.likely: "likely: one run of each",
    Word.same: "equally fast",
    Word.cant_tell: "can't tell",
}
DOUBT = "!"
BAR = "━"
MOST_BAR = 40  # characters
MAX_NAME, MAX_SETTING = 22, 20
MAX_LISTED = 6  # jobs without a bar
FIGURES_WIDTH = 20  # of a mark, a ratio and a speed


def summary(answers: Sequence[Answer], cells: Sequence[MeasuredCell], width: int) -> Iterator[Text]:
    """What all cells come to: `answers` are those of `cells`, which may have no numbers."""
    yield from of_jobs(answers, width)
    speeds = beside_speeds(cells)
    if speeds:
        yield Text()
    yield from map(Text, speeds)
    yield Text()
    yield from remarks(cells)


def of_jobs(answers: Sequence[Answer], width: int) -> Iterator[Text]:
    """A line for each job with a setting that is faster than its reference, the largest gain first; then the others."""
    faster = [answer for answer in answers if answer.best]
    compared = [answer for answer in answers if answer.group.gains]
    others = [answer for answer in compared if not answer.best]
    kept = [answer for answer in others if answer.group.gains[0].is_told or answer.group.gains[0].word == Word.same]
    untold = [answer for answer in others if answer not in kept]
    if compared:
        yield Text(f"{len(faster)} of {counted(len(compared), 'job')} run faster than {_today(compared)}", "bold")
        yield Text()
    gains = sorted(((answer.best, answer) for answer in faster if answer.best), key=lambda pair: -pair[0].ratio)
    yield from _rows(gains, answers, width)
    yield from _list("keep what you run", [_best_of(answer, answers) for answer in kept])
    yield from _list("can't tell", [_best_of(answer, answers) for answer in untold])
    alone = [answer for answer in answers if not answer.group.gains]
    yield from _list("one setting only", [f"{_name(answer, answers)}: {answer.rate}" for answer in alone])
    words = [gain.word for gain, _ in gains] + [answer.group.gains[0].word for answer in others]
    if words:
        legend = "   ".join(f"{MARKS[word]} {meaning}" for word, meaning in MEANINGS.items() if word in words)
        yield Text(f"\n  {legend}", "dim")


def _list(title: str, lines: Sequence[str]) -> Iterator[Text]:
    if lines:
        yield Text(f"\n  {title}", "bold dim")
    yield from (Text(f"  {line}", "dim") for line in lines[:MAX_LISTED])
    if len(lines) > MAX_LISTED:
        yield Text(f"  and {counted(len(lines) - MAX_LISTED, 'more job')}", "dim")


def _best_of(answer: Answer, answers: Sequence[Answer]) -> str:
    """Such as `rnn train  ○ fp32 with keras, batch 32 is 0.63x`."""
    gain = answer.group.gains[0]
    return f"{_name(answer, answers)}  {MARKS[gain.word]} {_setting(answer, gain.first)} is {_times(gain)}"


def _times(gain: Gap) -> str:
    return f"{significant(gain.ratio, 2)}x"


def _rows(gains: Sequence[tuple[Gap, Answer]], answers: Sequence[Answer], width: int) -> Iterator[Text]:
    if not gains:
        return
    names = [shortened(_name(answer, answers), MAX_NAME) for _, answer in gains]
    settings = [shortened(_setting(answer, gain.first), MAX_SETTING) for gain, answer in gains]
    name_width = max(map(len, names))
    setting_width = max(map(len, settings))
    most = math.log(gains[0][0].ratio)
    room = min(MOST_BAR, width - name_width - setting_width - FIGURES_WIDTH - 8)
    for (gain, _), name, setting in zip(gains, names, settings, strict=True):
        length = max(1, round(max(room, 1) * math.log(gain.ratio) / most))
        line = Text(f"  {name:<{name_width}}  {setting:<{setting_width}}  ")
        line.append(BAR * length, "green")
        line.append(MARKS[gain.word].ljust(max(room, 1) - length + 1))
        rate = speed_text(gain.first.cell, gain.first.speed).replace(" samples/s", "/s")
        doubt = f" {DOUBT}" if gain.is_doubtful else ""
        line.append(f"{_times(gain):>7}  {rate:>9}{doubt}")
        yield line


def of_one(answer: Answer, width: int, most: int) -> Iterator[Text]:
    """What to use for one job, and a bar for each of its fastest cells, `most` at most."""
    mark = f"{MARKS[answer.lead.word]} " if answer.lead else ""
    yield Text.assemble((answer.title, "bold"), f": {mark}{answer.sentence}")
    cells = answer.group.cells
    if len(cells) == 1:
        return
    yield Text()
    names = [answer.group.short_text(cell) for cell in cells[:most]]
    rates = [speed_text(cell.cell, cell.speed) for cell in cells[:most]]
    name_width = max(map(len, names))
    rate_width = max(map(len, rates))
    room = max(1, min(MOST_BAR, width - name_width - rate_width - FIGURES_WIDTH - 6))
    for cell, name, rate in zip(cells, names, rates, strict=False):
        length = max(1, round(room * (cell.speed or 0.0) / (cells[0].speed or 1.0)))
        line = Text(f"  {name:<{name_width}}  ")
        line.append((BAR * length).ljust(room), "green")
        half = relative_half_width(cell.row)
        interval = "" if half is None else f"±{significant(100 * half, 2)} %"
        p50_ms = cell.number("latency_p50_ms")
        step = "" if p50_ms is None else f"{significant(p50_ms)} ms"
        line.append(f"  {rate:>{rate_width}}  {interval:<6}  {step}{f' {DOUBT}' if warnings_of(cell.row) else ''}")
        yield Text(line.plain.rstrip()) if not line.spans else line
    if len(cells) > most:
        yield Text(f"  and {counted(len(cells) - most, 'slower cell')}", "dim")


def remarks(cells: Sequence[MeasuredCell]) -> Iterator[Text]:
    """A line each about doubts, stand-ins and cells without a number."""
    ok = [cell for cell in cells if cell.is_ok]
    if num := sum(bool(warnings_of(cell.row)) for cell in ok):
        yield Text(f"{DOUBT} {num} of {counted(len(ok), 'cell')} in doubt: the report has the reasons", "yellow")
    if names := stand_ins_of(cells):
        yield Text(f"{DOUBT} stand-ins for {', '.join(names)}: speeds hold, accuracies don't", "yellow")
    if text := missing(cells):
        yield Text(f"- {text}", "dim")


def _today(answers: Sequence[Answer]) -> str:
    """What the references of all answers have in common, such as `fp32 (same batch)`."""
    references = [gain.second for answer in answers for gain in answer.group.gains]
    named = {f"{each.cell.engine} {each.cell.precision} on {each.cell.device}" for each in references}
    return f"{named.pop() if len(named) == 1 else 'what was asked for first'} (same batch)"


def _name(answer: Answer, answers: Sequence[Answer]) -> str:
    return f"{answer.name_among(answers)} {answer.fastest.cell.mode}"


def _setting(answer: Answer, cell: MeasuredCell) -> str:
    several = len({each.cell.batch_size for each in answer.group.cells}) > 1
    return answer.group.setting(cell) + (f" b{cell.cell.batch_size}" if several else "")
