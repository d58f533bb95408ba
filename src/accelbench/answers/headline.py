"""What all answers come to, in at most five lines: the page, report.md and the end of `make repro` show these."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
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


class Network(NamedTuple):
    """The fastest setting of a network, in words."""

    name: str
    setting: str  # empty if it can't be told, and so are the next ones
    rate: str
    ratio: str  # its speed over the next one, such as `1.26`
    word: str  # how sure that is; with `!` if a number of either is in doubt
    other: str  # the next one

    @property
    def text(self) -> str:
        """The same as text."""
        return f"{self.name}: {self.setting} ({self.ratio} times as fast as the next, {self.word})"


class Line(NamedTuple):
    """A line of the headline."""

    topic: str  # what it is about, such as `Fastest`
    text: str  # sentences; what is to stand on a line of its own follows a line break
    networks: Mapping[str, list[Network]] = MappingProxyType({})  # the same as tables, by what they are about


def headline(answers: Sequence[Answer], cells: Sequence[MeasuredCell], published: str = "") -> list[Line]:
    """The lines that there is something to say in.

    `cells` are those of the answers and those that were not measured; `published` says how the answers compare with
    published numbers.
    """
    lines = [
        _fastest(answers),
        Line("In doubt", in_doubt(answers, cells)),
        Line("Precision", worth(answers, cells)),
        Line("Studies", published),
        Line("Not measured", _missing(cells)),
    ]
    return [line for line in lines if line.text]


def _fastest(answers: Sequence[Answer]) -> Line:
    """The fastest setting of each network with several, by mode; of batch sizes if no network has several settings."""
    chosen = [answer for answer in answers if answer.group.others] or [answer for answer in answers if answer.others]
    if not chosen:
        return Line("Fastest", "Each network was measured with one setting: nothing to compare." if answers else "")
    networks = {}
    for mode in Mode:
        if of_mode := [answer for answer in chosen if answer.fastest.cell.mode == mode]:
            devices = {answer.fastest.cell.device for answer in of_mode}
            has_one = len(devices) == 1 and any(answer.group.has_devices for answer in of_mode)
            head = f"{MODES[mode].capitalize()}{f', on the {min(devices)}' if has_one else ''}"
            networks[head] = _networks(of_mode, has_devices=len(devices) > 1)
    return Line("Fastest", "\n".join(_text(head, of_mode) for head, of_mode in networks.items()), networks)


def _text(head: str, networks: Sequence[Network]) -> str:
    """Such as `Training: cnn: fp32 with keras (1.26 times as fast as the next, likely); can't tell for mlp.`."""
    untold = ", ".join(each.name for each in networks if not each.setting)
    parts = [each.text for each in networks if each.setting] + ([f"can't tell for {untold}"] if untold else [])
    return f"{head}: {'; '.join(parts[:1] + [part.replace(' as fast as the next', '') for part in parts[1:]])}."


def _networks(answers: Sequence[Answer], *, has_devices: bool) -> list[Network]:
    """Those of a mode, the most important first; those that can't be told last. The next one's device if it differs."""
    has_engines = any(answer.group.has_engines for answer in answers)

    def setting(answer: Answer, cell: MeasuredCell) -> str:
        differs = has_devices or cell.cell.device != answer.fastest.cell.device
        batch = "" if answer.group.others else f", batch {cell.cell.batch_size}"
        return setting_text(cell, has_devices=differs, has_engines=has_engines) + batch

    told: dict[tuple[str, str], Answer] = {}  # by network and setting; one without doubts, if any is
    for answer in answers:
        if answer.lead and answer.lead.is_told:
            key = answer.model, setting(answer, answer.fastest)
            told[key] = answer if key not in told or told[key].is_doubtful > answer.is_doubtful else told[key]
    nums = Counter(model for model, _ in told)
    found = []
    for (model, first), answer in list(told.items())[:MAX_NAMED]:
        assert answer.lead
        name = f"{model} on {answer.data}" if nums[model] > 1 else model
        word = f"{answer.lead.word}{' !' * answer.is_doubtful}"
        other = setting(answer, answer.lead.second)
        found.append(Network(name, first, answer.rate, significant(answer.lead.ratio), word, other))
    untold = dict.fromkeys(answer.model for answer in answers if answer.model not in nums)
    return found + [Network(model, "", "", "", "can't tell", "") for model in list(untold)[:MAX_NAMED]]


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
