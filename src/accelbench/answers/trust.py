"""What a reader should not trust: stand-in data, and cells whose numbers may be off."""

from collections import Counter
from collections.abc import Sequence

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.sentences import Answer
from accelbench.judging.row import remarks_in, warnings_of
from accelbench.judging.warnings import Kind
from accelbench.presentation import counted

MAX_NAMED, FEW = 8, 3  # cells in doubt; of more, few are named


def in_doubt(answers: Sequence[Answer], cells: Sequence[MeasuredCell]) -> str:
    """Which numbers are not to be trusted, those of the answers first, and why; empty if nothing was measured."""
    ok = [cell for cell in cells if cell.is_ok]
    compared = {id(each) for answer in answers if (lead := answer.lead) for each in (lead.first, lead.second)}
    doubted = sorted((cell for cell in ok if warnings_of(cell.row)), key=lambda cell: id(cell) not in compared)
    if not ok:
        return ""
    kinds_of = [dict.fromkeys(cell.doubts) for cell in doubted]
    said = ", ".join(f"{num} {kind}" for kind, num in Counter(kind for own in kinds_of for kind in own).most_common())
    if num_several := sum(len(own) > 1 for own in kinds_of):
        said += f"; {num_several} of them for several reasons"
    named = [cell.label for cell in doubted]
    few = named if len(named) <= MAX_NAMED else named[:FEW]
    more = f" and {len(named) - FEW} more (column warnings of cells.csv)" * (len(few) < len(named))
    which = f" are in doubt ({said}): {', '.join(few)}{more}" if doubted else " are in doubt"
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
