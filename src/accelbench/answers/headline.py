"""What all answers come to, in at most five lines: the page, report.md and the end of `make repro` show these."""

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import shorten
from types import MappingProxyType
from typing import NamedTuple

from accelbench.answers.cells import MeasuredCell, Word
from accelbench.answers.precisions import worth
from accelbench.answers.sentences import Answer
from accelbench.answers.trust import in_doubt
from accelbench.answers.words import MODES, setting_text
from accelbench.presentation import significant
from accelbench.schema.vocab import Mode, Status

MAX_NAMED = 9  # networks of a mode
MAX_REASONS, REASON_LENGTH = 3, 60


class Network(NamedTuple):
    """The fastest setting of a network, in words."""

    name: str
    text: str  # such as `fp32 with keras (1.26 times as fast as the next, likely)`; with both batches if they differ
    setting: str = ""  # with its batch; empty if it can't be told, and so are the next ones
    rate: str = ""
    verdict: str = "can't tell"  # such as `1.26x bf16 with lightning, likely !`: a number of either is in doubt


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
        Line("Missing", _missing(cells)),
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
    untold = ", ".join(each.name for each in networks if not each.text)
    parts = [f"{each.name}: {each.text}" for each in networks if each.text and each.name]
    parts += [f"can't tell for {untold}"] if untold else []
    parts += [each.text for each in networks if not each.name]
    return f"{head}: {'; '.join(parts[:1] + [part.replace(' as fast as the next', '') for part in parts[1:]])}."


def _networks(answers: Sequence[Answer], *, has_devices: bool) -> list[Network]:
    """Those of a mode, the most important first; those that can't be told last. A network of several has its data."""
    has_engines = any(answer.group.has_engines for answer in answers)

    def setting(answer: Answer, cell: MeasuredCell, *, batch: bool) -> str:
        differs = has_devices or cell.cell.device != answer.fastest.cell.device
        text = setting_text(cell, has_devices=differs, has_engines=has_engines)
        return f"{text} b{cell.cell.batch_size}" if batch else text

    def network(answer: Answer) -> Network:
        name, lead = answer.name_among(answers), answer.lead
        if lead is None or lead.word == Word.cant_tell:
            return Network(name, "")
        first, second = (each.cell.batch_size for each in (lead.first, lead.second))
        own = setting(answer, lead.first, batch=False)
        other = setting(answer, lead.second, batch=first != second)
        word = f"{lead.word}{' !' * lead.is_doubtful}"
        text, verdict = f"{own} and {other} are equally fast", f"equally fast: {other}{' !' * lead.is_doubtful}"
        if lead.is_told:
            batches = f"batch {first} against {second}, " * (first != second)
            text = f"{own} ({significant(lead.ratio)} times as fast as the next, {batches}{word})"
            verdict = f"{significant(lead.ratio)}x {other}, {word}"
        return Network(name, text, setting(answer, lead.first, batch=True), answer.rate, verdict)

    found = sorted(map(network, answers), key=lambda each: not each.text)
    more = [Network("", f"and {len(found) - MAX_NAMED} more", verdict="")] if len(found) > MAX_NAMED else []
    return found[:MAX_NAMED] + more


def _missing(cells: Sequence[MeasuredCell]) -> str:
    """How many cells have no numbers, on which device, and why."""
    reasons: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        if not cell.is_ok:
            reason = str(cell.row["reason"] or cell.row["disturbed"] or "").partition(" (")[0]
            reason = shorten(reason, REASON_LENGTH, placeholder=" ...")
            outcome = "" if cell.outcome == Status.skipped else cell.outcome
            reasons[cell.cell.device, ": ".join(dict.fromkeys(filter(None, [outcome, reason])))] += 1
    parts = [f"{num:,} on {device} ({why})" for (device, why), num in reasons.most_common(MAX_REASONS)]
    if left := sum(reasons.values()) - sum(num for _, num in reasons.most_common(MAX_REASONS)):
        parts.append(f"{left:,} for other reasons")
    return f"{sum(reasons.values()):,} of {len(cells):,} cells: {', '.join(parts)}." if parts else ""
