"""What to use for each model, how sure that is, and which devices were there."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from accelbench.compare import confidence
from accelbench.presentation import UNKNOWN, and_more, significant
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables import best
from accelbench.report.tables.gpus import gpu_facts
from accelbench.report.tables.in_turns import in_turns
from accelbench.report.tables.options import options_text
from accelbench.report.tables.table import Column, Entry, Table, count, number, tabulate, tabulate_known, word
from accelbench.schema.record import Row
from accelbench.schema.vocab import Device, Engine

MAX_FOLDERS = 2  # named of one recommendation
# The criteria after throughput -> the heading of their numbers.
CRITERIA_HEADINGS = {"latency": "p50 (ms)", "energy": "J/sample", "money": "cost of a million"}


@dataclass(frozen=True)
class Recommendation:
    """What to use for one workload.

    Attributes:
        cells: the workload's ok processes with a throughput, at least one.
        where: on which machine, or when; empty if all were measured in one place with the same packages.
    """

    cells: list[ReportedCell]
    where: str = ""

    @property
    def what(self) -> str:
        """The model, what is done with it, on what, and where."""
        return ", ".join(filter(None, [best.workload_text(self.fastest), self.where]))

    @cached_property
    def typical(self) -> list[ReportedCell]:
        """One process of each cell."""
        return best.typical(self.cells)

    @cached_property
    def by_speed(self) -> list[ReportedCell]:
        """`typical`, the fastest first."""
        return sorted(self.typical, key=lambda reported: -(reported.number("samples_per_s") or 0.0))

    @property
    def fastest(self) -> ReportedCell:
        """The fastest cell."""
        return self.by_speed[0]

    @cached_property
    def others(self) -> list[ReportedCell]:
        """The fastest cell of each other device, precision, engine and options, the fastest first."""
        by_setting: dict[tuple[object, ...], ReportedCell] = {}
        for reported in self.by_speed:
            by_setting.setdefault(_setting(reported), reported)
        return list(by_setting.values())[1:]

    @property
    def next_best(self) -> ReportedCell | None:
        """The first of `others`; None if no other was measured."""
        return self.others[0] if self.others else None

    @cached_property
    def has_engines(self) -> bool:
        """Whether several engines were measured."""
        return len({reported.cell.engine for reported in self.cells}) > 1

    @cached_property
    def has_devices(self) -> bool:
        """Whether several devices were measured."""
        return len({reported.cell.device for reported in self.cells}) > 1

    def setting(self, row: Row) -> str:
        """A choice without its batch, such as `bf16 openvino`; with its device if there are several."""
        device = str(row["device"]) if self.has_devices else None
        return " ".join(filter(None, [device, str(row["precision"]), self.options(row)]))

    def options(self, row: Row) -> str:
        """A choice's engine if there are several, and its options, such as `lightning, channels_last`."""
        is_first = self.has_engines and row["engine"] == Engine.lightning  # `options_text` names the other engines
        return ", ".join(filter(None, [Engine.lightning if is_first else None, options_text(row)]))

    def text(self, row: Row) -> str:
        """A choice, such as `cpu bf16 b32, channels_last`; with its engine if there are several."""
        settings = f"{row['device']} {row['precision']} b{row['batch_size']}"
        return ", ".join(filter(None, [settings, self.options(row)]))

    def names_like(self, reported: ReportedCell) -> list[str]:
        """The names of all records of the same setting, of all batch sizes."""
        return [each.name for each in self.cells if _setting(each) == _setting(reported)]

    def repeats(self, reported: ReportedCell) -> list[ReportedCell]:
        """See `in_turns`."""
        return in_turns(reported, self.cells)

    def confidence(self, other: ReportedCell) -> confidence.Confidence:
        """How sure it is that the fastest cell is faster than `other`."""
        return confidence.against_fastest(self.repeats(other), self.repeats(self.fastest))

    def is_sure(self, other: ReportedCell) -> bool:
        """Whether enough processes of both, in turns, were measured to decide."""
        return confidence.compared(self.repeats(other), self.repeats(self.fastest)) is not None

    def best_row(self, criterion: str) -> Row | None:
        """The best cell's row by one of `best.CRITERIA`."""
        return best.best_by([reported.row for reported in self.typical], criterion)


def _setting(reported: ReportedCell) -> tuple[object, ...]:
    cell = reported.cell
    return cell.device, cell.devices, cell.precision, cell.options, cell.engine, cell.keras, cell.threads


def _by_precision(found: Recommendation) -> str:
    """The best rate of each precision, such as `bf16 40.2, fp32 19.4`; for each engine if there are several."""
    by_engine: dict[str, dict[str, float]] = {}
    for reported in found.by_speed:
        rates = by_engine.setdefault(reported.cell.engine, {})
        rates.setdefault(reported.cell.precision, reported.number("samples_per_s") or 0.0)
    texts = {
        engine: ", ".join(f"{precision} {significant(rate)}" for precision, rate in rates.items())
        for engine, rates in by_engine.items()
    }
    return "; ".join(f"{engine}: {text}" if found.has_engines else text for engine, text in texts.items())


def _next_best(found: Recommendation) -> Entry:
    return word(found.text(found.next_best.row) if found.next_best else "no other was measured")


def _lead(found: Recommendation) -> Entry:
    """How far the next best is behind the fastest."""
    if found.next_best is None:
        return word(None)
    lead = 1 - (found.next_best.number("samples_per_s") or 0.0) / (found.fastest.number("samples_per_s") or 1.0)
    return Entry(f"{significant(100 * lead, 2)} %", 100 * lead)


def _confidence(found: Recommendation) -> Entry:
    if found.next_best is None:
        return word(None)
    return word(str(found.confidence(found.next_best)))


def _criterion_columns(criterion: str, heading: str) -> list[Column[Recommendation]]:
    def choice(found: Recommendation) -> Entry:
        row = found.best_row(criterion)
        return word(found.text(row) if row else None)

    def value(found: Recommendation) -> Entry:
        row = found.best_row(criterion)
        return number(row[best.CRITERIA[criterion][0]] if row else None)

    return [Column(f"least {criterion} with", choice), Column(heading, value)]


COLUMNS: list[Column[Recommendation]] = [
    Column(
        "model, and what is done",
        lambda found: word(found.what),
    ),
    Column("most samples/s with", lambda found: word(found.text(found.fastest.row))),
    Column("samples/s", lambda found: number(found.fastest.number("samples_per_s"))),
    Column("± (%)", lambda found: best.half_width_entry(found.fastest.row)),
    Column("best of each precision", lambda found: word(_by_precision(found))),
    Column("next best", _next_best),
    Column("its samples/s", lambda found: number(found.next_best.number("samples_per_s") if found.next_best else None)),
    Column("behind by", _lead),
    Column("how sure", _confidence),
    Column("warnings", lambda found: best.num_warnings(found.fastest.row)),
    *(column for item in CRITERIA_HEADINGS.items() for column in _criterion_columns(*item)),
]


def recommendations(sweeps: Sequence[Sweep]) -> list[Recommendation]:
    """What to use for each model and what is done with it, on each machine with each set of packages."""
    found = []
    for cells in best.workloads(sweeps):
        places: dict[str, list[ReportedCell]] = {}
        for reported in cells:
            places.setdefault(reported.place_key, []).append(reported)
        machines = {reported.machine_name for reported in cells}
        for each in places.values():
            days = {str(reported.row["started_at"])[:10] for reported in each}
            apart = each[0].machine_name if len(machines) > 1 else f"measured {max(days)}"
            found.append(Recommendation(each, apart if len(places) > 1 else ""))
    return _told_apart(found, sweeps)


def _told_apart(found: Sequence[Recommendation], sweeps: Sequence[Sweep]) -> list[Recommendation]:
    """`found`; of those about the same that come from several sweeps, each with its sweep, and how it was measured."""
    folders = {id(each): sweep.folder for sweep in sweeps for each in [*sweep.cells, *sweep.confirming]}
    alike: dict[str, list[Recommendation]] = {}
    for recommendation in found:
        alike.setdefault(recommendation.what, []).append(recommendation)
    told = []
    for each in found:
        others, own = alike[each.what], sorted({folders[id(reported)] for reported in each.cells})
        if len({folders[id(reported)] for other in others for reported in other.cells}) == 1 or len(others) == 1:
            told.append(each)
            continue
        day = min(str(reported.row["started_at"])[:10] for reported in each.cells)
        where = [*own[:MAX_FOLDERS], and_more(len(own) - MAX_FOLDERS, "sweep")] if len(own) > MAX_FOLDERS else own
        where += [] if any(day in folder for folder in own) else [day]
        windows = [vars(other.fastest.cell.window) for other in others]
        differing = [name for name in windows[0] if len({window[name] for window in windows}) > 1]
        where += [f"window.{name}={getattr(each.fastest.cell.window, name):g}" for name in differing]
        told.append(Recommendation(each.cells, ", ".join(filter(None, [each.where, *where]))))
    return told


def table(sweeps: Sequence[Sweep]) -> Table | None:
    """A line for each model and what is done with it: the best cell by each criterion; None if no cell is ok."""
    notes = [
        "The best ok cell by each known criterion; of several repeats and seeds, the one with the middle throughput "
        "(the slower of two) is shown. ± is half of the 95 % interval within one process. Next best: the fastest cell "
        "that differs in device, precision, engine or options. Best of each precision: samples/s, for each measured "
        "engine. Warnings: how many the fastest has; the table of every "
        "cell has their text.",
        confidence.NOTE,
    ]
    return tabulate_known("What to use", COLUMNS, recommendations(sweeps), notes)


@dataclass(frozen=True)
class DeviceOutcome:
    """A device that was asked for, and the cells that were planned on it, at least one."""

    device: Device
    cells: list[ReportedCell]

    @property
    def ok(self) -> list[ReportedCell]:
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
        found = [reported.row["reason"] for reported in self.cells if not reported.is_ok]
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
    cells = [reported for sweep in sweeps for reported in sweep.cells]
    by_device = {device: [reported for reported in cells if reported.cell.device == device] for device in Device}
    return [DeviceOutcome(device, cells) for device, cells in by_device.items() if cells]


def device_texts(sweeps: Sequence[Sweep]) -> list[str]:
    """Each device in a few words: `cpu: AMD EPYC`, or `gpu: not measured (no NVIDIA driver found)`."""
    return [
        f"{outcome.device}: " + (outcome.name or f"not measured ({outcome.reason or UNKNOWN})")
        for outcome in _outcomes(sweeps)
    ]
