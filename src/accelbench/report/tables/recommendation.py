"""What to use for each model, how sure that is, and which devices were there."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accelbench.answers.best import CRITERIA, best_by
from accelbench.answers.cells import MeasuredCell
from accelbench.answers.gaps import NOTE
from accelbench.answers.process import Process
from accelbench.answers.ranking import Answer
from accelbench.presentation import UNKNOWN, significant
from accelbench.report.read import Sweep
from accelbench.report.tables import best
from accelbench.report.tables.gpus import gpu_facts
from accelbench.report.tables.table import Column, Entry, Table, count, number, tabulate, tabulate_known, word
from accelbench.schema.vocab import Device

# The criteria after throughput -> the heading of their numbers.
CRITERIA_HEADINGS = {"latency": "p50 (ms)", "energy": "J/sample", "money": "cost of a million"}


def _by_precision(answer: Answer) -> str:
    """The best rate of each precision, such as `bf16 40.2, fp32 19.4`; for each engine if there are several."""
    by_engine: dict[str, dict[str, float]] = {}
    for each in answer.group.cells:
        by_engine.setdefault(each.cell.engine, {}).setdefault(each.cell.precision, each.speed or 0.0)
    texts = {
        engine: ", ".join(f"{precision} {significant(rate)}" for precision, rate in rates.items())
        for engine, rates in by_engine.items()
    }
    return "; ".join(f"{engine}: {text}" if answer.group.has_engines else text for engine, text in texts.items())


def _next_best(entry: Callable[[Answer, MeasuredCell], Entry]) -> Callable[[Answer], Entry]:
    """An entry about the next best cell."""
    return lambda answer: entry(answer, answer.lead.second) if answer.lead else word(None)


def _criterion_columns(criterion: str, heading: str) -> list[Column[Answer]]:
    def choice(answer: Answer) -> Entry:
        found = best_by(answer.group.cells, criterion)
        return word(answer.group.short_text(found) if found else None)

    def value(answer: Answer) -> Entry:
        found = best_by(answer.group.cells, criterion)
        return number(found.row[CRITERIA[criterion][0]] if found else None)

    return [Column(f"least {criterion} with", choice), Column(heading, value)]


COLUMNS: list[Column[Answer]] = [
    Column("model, and what is done", lambda answer: word(answer.group.what)),
    Column("most samples/s with", lambda answer: word(answer.group.short_text(answer.fastest))),
    Column("samples/s", lambda answer: number(answer.fastest.speed)),
    Column("± (%)", lambda answer: best.half_width_entry(answer.fastest)),
    Column("best of each precision", lambda answer: word(_by_precision(answer))),
    Column("next best", _next_best(lambda answer, other: word(answer.group.short_text(other)))),
    Column("its samples/s", _next_best(lambda _, other: number(other.speed))),
    Column("times as fast", lambda answer: number(answer.lead.ratio if answer.lead else None)),
    Column("how sure", lambda answer: word(answer.lead.how_sure if answer.lead else None)),
    Column("warnings", lambda answer: best.num_warnings(answer.fastest)),
    *(column for item in CRITERIA_HEADINGS.items() for column in _criterion_columns(*item)),
]


def table(answers: Sequence[Answer]) -> Table | None:
    """A line for each model and what is done with it: the best cell by each criterion; None if no cell is ok."""
    notes = [
        "Next best: the fastest cell that differs in device, precision, engine or options; of a single setting, in the "
        "batch size. Times as fast: the fastest over it. Best of each precision: samples/s, for each measured engine. "
        f"{best.NOTE}",
        NOTE,
    ]
    return tabulate_known("What to use", COLUMNS, answers, notes)


@dataclass(frozen=True)
class DeviceOutcome:
    """A device that was asked for, and what was planned on it, at least one process."""

    device: Device
    cells: list[Process]

    @property
    def ok(self) -> list[Process]:
        """The ok cells."""
        return [reported for reported in self.cells if reported.is_ok]

    @property
    def name(self) -> str:
        """What the device calls itself; empty if no cell is ok."""
        names = [reported.row["device_name"] for reported in self.ok]
        return "; ".join(dict.fromkeys(str(name) for name in names if name))

    @property
    def described(self) -> str:
        """Its names, each with what is known of such a GPU."""
        texts = []
        for reported in self.ok:
            facts = gpu_facts(reported.record).text if reported.record else ""
            texts.append(f"{reported.row['device_name'] or ''}{f' ({facts})' if facts else ''}")
        return "; ".join(dict.fromkeys(filter(None, texts)))

    @property
    def reason(self) -> str | None:
        """The most frequent reason why a cell is not ok; None if all cells are ok."""
        found = [reported.disturbed or reported.row["reason"] for reported in self.cells if not reported.is_ok]
        reasons = Counter(str(reason) for reason in found if reason)
        return reasons.most_common(1)[0][0] if reasons else None


DEVICE_COLUMNS: list[Column[DeviceOutcome]] = [
    Column("device", lambda outcome: word(outcome.device)),
    Column("did it run", lambda outcome: word("yes" if outcome.ok else "no")),
    Column("what it is", lambda outcome: word(outcome.described)),
    Column("cells ok", lambda outcome: count(len(outcome.ok))),
    Column("cells not ok", lambda outcome: count(len(outcome.cells) - len(outcome.ok))),
    Column("most frequent reason", lambda outcome: word(outcome.reason)),
]


def devices(sweeps: Sequence[Sweep]) -> Table:
    """Whether each device that was asked for was there: what it is, and how many cells ran on it."""
    return tabulate("What was measured on which device", DEVICE_COLUMNS, _outcomes(sweeps))


def _outcomes(sweeps: Sequence[Sweep]) -> list[DeviceOutcome]:
    cells = [process for sweep in sweeps for process in sweep.planned]
    by_device = {device: [reported for reported in cells if reported.cell.device == device] for device in Device}
    return [DeviceOutcome(device, cells) for device, cells in by_device.items() if cells]


def device_texts(sweeps: Sequence[Sweep]) -> list[str]:
    """Each device in a few words: `cpu: AMD EPYC`, or `gpu: not measured (no NVIDIA driver found)`."""
    return [
        f"{outcome.device}: " + (outcome.name or f"not measured ({outcome.reason or UNKNOWN})")
        for outcome in _outcomes(sweeps)
    ]
