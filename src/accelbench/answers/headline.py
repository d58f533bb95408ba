"""What all answers come to, in at most five lines: the page, report.md and the end of `make repro` show these."""

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import shorten
from types import MappingProxyType
from typing import NamedTuple

from accelbench.answers.arrivals import target_answers
from accelbench.answers.cells import MeasuredCell, Word
from accelbench.answers.precisions import worth
from accelbench.answers.sentences import Answer
from accelbench.answers.serving import best_settings, capacities
from accelbench.answers.words import MODES, setting_text
from accelbench.judging.row import remarks_in, warnings_of
from accelbench.judging.warnings import Kind
from accelbench.presentation import counted, significant
from accelbench.schema.vocab import Mode, Status

MAX_NAMED = 15  # networks: the most important ones, in the order of their names
MAX_DOUBTED, FEW = 8, 3  # cells in doubt; of more, few are named
MAX_REASONS, REASON_LENGTH = 3, 60


class Network(NamedTuple):
    """The fastest setting of a network in one mode, in words."""

    text: str  # such as `fp32 with keras (1.26 times as fast as the next, likely)`; empty if it can't be told
    setting: str  # with its batch; ends in ` !` if its speed is in doubt
    rate: str
    verdict: str  # such as `1.26x the next: bf16 with pytorch !, likely`: the speed of the next is in doubt


class Line(NamedTuple):
    """A line of the headline."""

    topic: str  # what it is about, such as `Fastest`
    text: str  # sentences; what is to stand on a line of its own follows a line break
    others: str = ""  # those that `networks` does not show, below it
    networks: Mapping[str, Sequence[Network | None]] = MappingProxyType({})  # the first ones as a table, by names
    heads: Sequence[str] = ()  # of the columns of `networks`, such as `Training, on the cpu`
    num_more: int = 0  # networks that are left out


def headline(answers: Sequence[Answer], cells: Sequence[MeasuredCell], published: str = "") -> list[Line]:
    """The lines that there is something to say in.

    `cells` are those of the answers and those that were not measured; `published` says how the answers compare with
    published numbers.
    """
    generated = [f"{each.title}: {each.sentence}" for each in answers if each.fastest.cell.mode == Mode.generate]
    lines = [
        _fastest(answers, [*beside_speeds(cells), *generated[:MAX_NAMED]]),
        Line("In doubt", _in_doubt(answers, cells)),
        Line("Precision", worth(answers, cells)),
        Line("Studies", published),
        Line("Missing", _missing(cells)),
    ]
    return [line for line in lines if line.text]


def _fastest(answers: Sequence[Answer], others: Sequence[str]) -> Line:
    """The fastest setting of each network by mode, or the batch sizes if none has several; then the other speeds."""
    chosen = [answer for answer in answers if answer.group.others] or [answer for answer in answers if answer.others]
    if not chosen:
        alone = "Each network was measured with one setting: nothing to compare." if answers else ""
        return Line("Fastest", "\n".join(others) or alone)
    names = dict.fromkeys(answer.name_among(chosen) for answer in chosen)
    shown, heads, columns = sorted(list(names)[:MAX_NAMED], key=str.casefold), [], []
    for mode in Mode:
        if of_mode := [answer for answer in chosen if answer.fastest.cell.mode == mode]:
            devices = {answer.fastest.cell.device for answer in of_mode}
            has_one = len(devices) == 1 and any(answer.group.has_devices for answer in of_mode)
            heads.append(f"{MODES[mode].capitalize()}{f', on the {min(devices)}' if has_one else ''}")
            columns.append(_networks(of_mode, has_devices=len(devices) > 1))
    texts = [_text(head, shown, column) for head, column in zip(heads, columns, strict=True)]
    rows = {name: [column.get(name) for column in columns] for name in shown}
    return Line("Fastest", "\n".join([*texts, *others]), "\n".join(others), rows, heads, len(names) - len(shown))


def _text(head: str, shown: Sequence[str], networks: Mapping[str, Network]) -> str:
    """Such as `Training: cnn: fp32 with keras (1.26 times as fast as the next, likely); can't tell for mlp.`."""
    found = {name: networks[name] for name in shown if name in networks}
    parts = [f"{name}: {each.text}" for name, each in found.items() if each.text]
    untold = ", ".join(name for name, each in found.items() if not each.text)
    parts += [f"can't tell for {untold}"] if untold else []
    if left := len(networks) - len(found):
        parts.append(f"and {left} more" if parts else f"{counted(left, 'network')}, see the report")
    return f"{head}: {'; '.join(parts[:1] + [part.replace(' as fast as the next', '') for part in parts[1:]])}."


def _networks(answers: Sequence[Answer], *, has_devices: bool) -> dict[str, Network]:
    """Those of a mode, by name. A network of several answers has its data in its name."""
    has_engines = any(answer.group.has_engines for answer in answers)

    def setting(answer: Answer, cell: MeasuredCell, *, batch: bool) -> str:
        differs = has_devices or cell.cell.device != answer.fastest.cell.device
        environment = answer.group.environments.get(cell.measured_key)
        text = setting_text(cell, has_devices=differs, has_engines=has_engines, environment=environment)
        return f"{text} b{cell.cell.batch_size}" if batch else text

    def network(answer: Answer) -> Network:
        lead = answer.lead
        assert lead
        first, second = (each.cell.batch_size for each in (lead.first, lead.second))
        own = setting(answer, lead.first, batch=False)
        other = setting(answer, lead.second, batch=first != second)
        word = f"{lead.word}{', a number in doubt' * lead.is_doubtful}"
        marks = [" !" * bool(warnings_of(each.row)) for each in (lead.first, lead.second)]
        batches = f"batch {first} against {second}, " * (first != second)
        text = {Word.same: f"{own} and {other} are equally fast", Word.cant_tell: ""}.get(
            lead.word, f"{own} ({significant(lead.ratio)} times as fast as the next, {batches}{word})"
        )
        verdict = f"{significant(lead.ratio)}x the next: {other}{marks[1]}, {lead.word}"
        return Network(text, setting(answer, lead.first, batch=True) + marks[0], answer.rate, verdict)

    return {answer.name_among(answers): network(answer) for answer in reversed(answers)}


def beside_speeds(cells: Sequence[MeasuredCell]) -> list[str]:
    """How many requests per second the best setting of each workload serves, and what trainings to a target say."""
    served = [f"{each.what}: {each.sentence}." for each in best_settings(capacities(cells))]
    return [*served, *(each.sentence for each in target_answers(cells))]


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


def _in_doubt(answers: Sequence[Answer], cells: Sequence[MeasuredCell]) -> str:
    """Which numbers are not to be trusted, those of the answers first, and why; empty if nothing was measured."""
    ok = [cell for cell in cells if cell.is_ok]
    compared = {id(each) for answer in answers if (lead := answer.lead) for each in (lead.first, lead.second)}
    doubted = sorted((cell for cell in ok if warnings_of(cell.row)), key=lambda cell: id(cell) not in compared)
    if not ok:
        return ""
    kinds = [dict.fromkeys(cell.doubts) for cell in doubted]
    counts = Counter(kind for each in kinds for kind in each)
    said = ", ".join(f"{num} {kind}" for kind, num in counts.most_common())
    if num_several := sum(len(each) > 1 for each in kinds):  # else the counts seem not to add up
        said += f"; {num_several} of them for several reasons"
    named = [cell.label for cell in doubted[: FEW if len(doubted) > MAX_DOUBTED else None]]
    more = f" and {len(doubted) - FEW} more (column warnings of cells.csv)" * (len(named) < len(doubted))
    which = f" are in doubt ({said}): {', '.join(named)}{more}" if doubted else " are in doubt"
    sentences = [f"Numbers of {len(doubted) or 'none'} of {counted(len(ok), 'measured cell')}{which}."]
    if found := stand_ins(cells):
        hold = "speeds hold for data of these shapes, accuracies don't"
        sentences.append(f"Stand-ins were measured instead of {', '.join(found)}: {hold}.")
    return " ".join(sentences)


def tips(cells: Sequence[MeasuredCell]) -> dict[str, list[str]]:
    """Such as `Tip for 3 cells: another allocator may be faster` -> their labels; their own tips have figures."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        for tip in remarks_in(cell.row, Kind.tip):
            found.setdefault(tip.partition(": ")[0], []).append(cell.label)
    return {f"Tip for {counted(len(labels), 'cell')}: {advice}": labels for advice, labels in found.items()}


def stand_ins(cells: Sequence[MeasuredCell]) -> dict[str, str]:
    """Data set -> a sentence, for each that is only a stand-in for the one that it is named after."""
    measured = [record for cell in cells if (record := cell.record) and record.measurement]
    data = [record.data for record in measured if record.data and record.data.stand_in]
    found: dict[str, list[str]] = {}
    for (name, source), num in Counter((found.name, found.source) for found in data).items():
        found.setdefault(name, []).append(
            f"NOT {name.upper()}: a stand-in ({source}) was measured in {counted(num, 'cell')}. "
            f"Their accuracies and losses are not {name.upper()}'s and cannot be compared with published ones, their "
            "times only where they are estimated for as many samples."
        )
    return {name: " ".join(sentences) for name, sentences in found.items()}
