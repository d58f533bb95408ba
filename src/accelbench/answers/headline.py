"""What all answers come to, in at most five lines: the page, report.md and the end of `make repro` show these."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.precisions import worth
from accelbench.answers.sentences import Answer
from accelbench.answers.trust import in_doubt
from accelbench.answers.words import MODES, setting_text
from accelbench.presentation import significant
from accelbench.schema.vocab import Mode, Status

MAX_NAMED = 8  # networks of a mode
MAX_REASONS, REASON_LENGTH = 3, 60


class Line(NamedTuple):
    """A line of the headline."""

    topic: str  # what it is about, such as `Fastest`
    text: str  # sentences; what is to stand on a line of its own follows a line break


def headline(answers: Sequence[Answer], cells: Sequence[MeasuredCell], published: str = "") -> list[Line]:
    """The lines that there is something to say in.

    `cells` are those of the answers and those that were not measured; `published` says how the answers compare with
    published numbers.
    """
    lines = [
        Line("Fastest", _fastest(answers)),
        Line("Precision", worth(cells)),
        Line("Studies", published),
        Line("Not measured", _missing(cells)),
        Line("In doubt", in_doubt(answers, cells)),
    ]
    return [line for line in lines if line.text]


def _fastest(answers: Sequence[Answer]) -> str:
    """The fastest setting of each network with several, by mode; of batch sizes if no network has several settings."""
    chosen = [answer for answer in answers if answer.group.others] or [answer for answer in answers if answer.others]
    if not chosen:
        return "Each network was measured with one setting: nothing to compare." if answers else ""
    parts = [_of_mode(mode, [each for each in chosen if each.fastest.cell.mode == mode]) for mode in Mode]
    return "\n".join(filter(None, parts))


def _of_mode(mode: Mode, answers: Sequence[Answer]) -> str:
    """Such as `Training: cnn: fp32 with keras (1.26 times as fast as the next, likely); can't tell for mlp.`."""
    leading = {answer.fastest.cell.device for answer in answers}
    has_devices = len(leading) > 1
    on = f", on the {min(leading)}" if not has_devices and any(answer.group.has_devices for answer in answers) else ""
    has_engines = any(answer.group.has_engines for answer in answers)
    told: dict[tuple[str, str], Answer] = {}  # by network and setting: the most important one, without doubts if any is
    for answer in answers:
        if answer.lead and answer.lead.is_told:
            setting = setting_text(answer.fastest, has_devices=has_devices, has_engines=has_engines)
            batch = "" if answer.group.others else f", batch {answer.fastest.cell.batch_size}"
            key = answer.model, setting + batch
            told[key] = answer if key not in told or told[key].is_doubtful > answer.is_doubtful else told[key]
    networks = Counter(model for model, _ in told)
    parts: list[str] = []
    for (model, setting), answer in list(told.items())[:MAX_NAMED]:
        assert answer.lead
        name = f"{model} on {answer.data}" if networks[model] > 1 else model
        times = "times" if parts else "times as fast as the next"
        how_sure = f"{answer.lead.word}{' !' * answer.is_doubtful}"
        parts.append(f"{name}: {setting} ({significant(answer.lead.ratio)} {times}, {how_sure})")
    if (more := len(told) - MAX_NAMED) > 0:
        parts.append(f"{more} more below")
    if untold := dict.fromkeys(answer.model for answer in answers if answer.model not in networks):
        parts.append(f"can't tell for {', '.join(list(untold)[:MAX_NAMED])}")
    return f"{MODES[mode].capitalize()}{on}: {'; '.join(parts)}." if parts else ""


def _missing(cells: Sequence[MeasuredCell]) -> str:
    """How many cells have no numbers, on which device, and why."""
    reasons: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        if not cell.is_ok:
            reason = str(cell.row["reason"] or cell.row["disturbed"] or "").partition(" (")[0][:REASON_LENGTH]
            outcome = "" if cell.outcome == Status.skipped else cell.outcome
            reasons[cell.cell.device, ": ".join(dict.fromkeys(filter(None, [outcome, reason])))] += 1
    parts = [f"{num:,} on {device} ({why})" for (device, why), num in reasons.most_common(MAX_REASONS)]
    if left := sum(reasons.values()) - sum(num for _, num in reasons.most_common(MAX_REASONS)):
        parts.append(f"{left:,} for other reasons")
    return f"{sum(reasons.values()):,} of {len(cells):,} cells: {', '.join(parts)}." if parts else ""
